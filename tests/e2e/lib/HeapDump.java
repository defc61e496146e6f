import java.io.File;
import java.util.*;
import org.graalvm.visualvm.lib.jfluid.heap.*;

/** Prints what VisualVM's reader of heap dumps finds in a file: counts of classes, references, values and roots. */
public class HeapDump {
    static final TreeMap<String, Long> lines = new TreeMap<>();

    static void count(String line) { lines.merge(line, 1L, Long::sum); }

    static void field(String owner, FieldValue v) {
        Field f = v.getField();
        String name = f.getDeclaringClass().getName() + "." + f.getName();
        if (!(v instanceof ObjectFieldValue)) {
            if (!f.getName().equals("padding"))
                count(owner + " " + name + " = " + v.getValue());
            return;
        }
        Instance target = ((ObjectFieldValue) v).getInstance();
        if (target != null)
            count(owner + " " + name + " -> " + target.getJavaClass().getName());
    }

    public static void main(String[] args) throws Exception {
        Heap heap = HeapFactory.createHeap(new File(args[0]));
        for (Object o : heap.getAllClasses()) {
            JavaClass c = (JavaClass) o;
            JavaClass s = c.getSuperClass();
            count("class " + c.getName() + " extends " + (s == null ? "-" : s.getName()) + ", instances " + c.getInstancesCount());
            for (Object v : c.getStaticFieldValues())
                if (v instanceof ObjectFieldValue)
                    field("static", (FieldValue) v);
        }
        for (Iterator<?> i = heap.getAllInstancesIterator(); i.hasNext();) {
            Instance it = (Instance) i.next();
            String name = it.getJavaClass().getName();
            if (it instanceof PrimitiveArrayInstance)
                count(name + " of " + ((PrimitiveArrayInstance) it).getLength());
            if (it instanceof ObjectArrayInstance)
                for (Object v : ((ObjectArrayInstance) it).getValues())
                    if (v != null)
                        count(name + " [] -> " + ((Instance) v).getJavaClass().getName());
            for (Object v : it.getFieldValues())
                field(name, (FieldValue) v);
        }
        TreeSet<Long> roots = new TreeSet<>();
        for (Object o : heap.getGCRoots())
            if (((GCRoot) o).getInstance() != null)
                roots.add(((GCRoot) o).getInstance().getInstanceId());
        System.out.println("roots " + roots.size());
        lines.forEach((line, n) -> System.out.println(n + " " + line));
    }
}
