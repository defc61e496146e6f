// A heap with a shape to walk: sessions in a map, a chain, a cache that grows, strings and arrays that
// occur many times, buffers outside of the heap. Each line on standard input makes the cache larger and
// allocates a buffer.
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

public class Managed {
    static class Node { Node next; final byte[] load = new byte[64]; }
    static class Session { final String user; final Map<String, Object> values = new HashMap<>(); Session(String user) { this.user = user; } }
    static class Cache { final List<Entry> entries = new ArrayList<>(); }
    static class Entry { final int[] data = new int[250]; final Session owner; Entry(Session owner) { this.owner = owner; } }

    static final Map<Integer, Session> sessions = new HashMap<>();
    static final Cache cache = new Cache();
    static final List<ByteBuffer> buffers = new ArrayList<>();
    static Node chain;

    static void grow(int n) {
        for (int i = 0; i < n; i++) cache.entries.add(new Entry(sessions.get(i % sessions.size())));
    }

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 400; i++) {
            Session s = new Session(new String("user of many"));
            s.values.put("number", i);
            s.values.put("picture", new byte[1000]);
            sessions.put(i, s);
        }
        for (int i = 0; i < 300; i++) { Node n = new Node(); n.next = chain; chain = n; }
        for (int i = 0; i < 3; i++) buffers.add(ByteBuffer.allocateDirect(1 << 20));
        grow(1000);
        for (;;) {
            System.gc();
            System.out.println("ready");
            System.out.flush();
            if (System.in.read() < 0) return;
            grow(500);
            buffers.add(ByteBuffer.allocateDirect(2 << 20));
        }
    }
}
