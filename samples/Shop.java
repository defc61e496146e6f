// The program of the sample "shop": a heap with a shape to walk.
//
// What a look at it should find: orders that are only held by the history of their customer, and a cache
// of pictures that has no bound. Each line on standard input makes it larger.
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

public class Shop {
    static class Picture { final byte[] pixels = new byte[4096]; }
    static class Order { final String item; final int[] prices = new int[16]; Order(String item) { this.item = item; } }
    static class Customer { final String name; final List<Order> history = new ArrayList<>(); Customer(String name) { this.name = name; } }
    static class PictureCache { final Map<String, Picture> pictures = new HashMap<>(); }

    static final Map<Integer, Customer> customers = new HashMap<>();
    static final PictureCache cache = new PictureCache();

    static void sell(int n) {
        for (int i = 0; i < n; i++) {
            Customer c = customers.computeIfAbsent(i % 60, k -> new Customer("customer " + k));
            c.history.add(new Order("item " + i % 40));
            cache.pictures.computeIfAbsent("item " + cache.pictures.size() + i % 7, k -> new Picture());
        }
    }

    public static void main(String[] args) throws Exception {
        do {
            sell(700);
            System.gc();
            System.out.println("ready");
            System.out.flush();
        } while (System.in.read() >= 0);
    }
}
