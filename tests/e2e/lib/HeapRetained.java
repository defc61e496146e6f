import java.io.File;
import java.util.*;
import org.graalvm.visualvm.lib.jfluid.heap.*;

/** Prints what VisualVM's reader computes for a heap dump: sizes of classes, the largest retained sizes, roots. */
public class HeapRetained {
    static String escaped(Object name) { return String.valueOf(name).replace(' ', '_'); }

    public static void main(String[] args) throws Exception {
        Heap heap = HeapFactory.createHeap(new File(args[0]));
        for (Object o : heap.getAllClasses()) {
            JavaClass c = (JavaClass) o;
            if (!c.getName().startsWith(args[1]))
                continue;
            long retained = 0;
            for (Object i : c.getInstances())
                retained += ((Instance) i).getRetainedSize();
            System.out.println("class " + escaped(c.getName()) + " " + c.getInstancesCount() + " " + c.getAllInstancesSize() + " " + retained);
        }
        for (Object o : heap.getBiggestObjectsByRetainedSize(Integer.parseInt(args[2]))) {
            Instance i = (Instance) o;
            System.out.println("largest " + escaped(i.getJavaClass().getName()) + " " + i.getInstanceId() + " " + i.getSize() + " " + i.getRetainedSize());
        }
        TreeMap<String, Integer> kinds = new TreeMap<>();
        for (Object o : heap.getGCRoots())
            kinds.merge(escaped(((GCRoot) o).getKind()), 1, Integer::sum);
        kinds.forEach((k, n) -> System.out.println("root " + k + " " + n + " 0 0"));
        HeapSummary s = heap.getSummary();
        System.out.println("all - " + s.getTotalLiveInstances() + " " + s.getTotalLiveBytes() + " 0");
    }
}
