#!/usr/bin/env python3
"""What a heap dump says of the contents of objects: how full collections are, boxed numbers, objects by their fields."""
import json
import struct
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from java import Jvm, ask, dump
from lib import hw

# Each field of Own holds one collection or box. What it has, the program says by reflection, and by its own random sizes.
FILL = r"""
import java.lang.reflect.*;
import java.util.*;
import java.util.concurrent.*;
public class Fill {
    static class Own {
        HashMap<Object, Object> map; LinkedHashMap<Object, Object> linked; ConcurrentHashMap<Object, Object> concurrent;
        Hashtable<Object, Object> table; IdentityHashMap<Object, Object> identity; TreeMap<Object, Object> tree;
        ArrayList<Object> list; Vector<Object> vector; LinkedList<Object> chain; ArrayDeque<Object> deque;
        PriorityQueue<Object> queue; CopyOnWriteArrayList<Object> copied; HashSet<Object> set; ArrayBlockingQueue<Object> bounded;
        ConcurrentSkipListMap<Object, Object> skipMap; ConcurrentSkipListSet<Object> skipSet; TreeSet<Object> treeSet;
        LinkedBlockingQueue<Object> blocking; LinkedBlockingDeque<Object> blockingDeque; ConcurrentLinkedQueue<Object> free;
        ConcurrentLinkedDeque<Object> freeDeque; LinkedTransferQueue<Object> transfer;
        List<Object> fixed, fewList; Set<Object> fewSet; Map<Object, Object> fewMap;
        Integer small; Long large; Double real; String text; Object nothing; boolean flag; char letter; int number;
        int[] numbers;
    }
    static final Own[] owns = new Own[300];
    static Object get(Object o, Class<?> c, String name) throws Exception {
        Field f = c.getDeclaredField(name);
        f.setAccessible(true);
        return f.get(o);
    }
    static Object array(Object o) throws Exception {
        if (o instanceof HashSet) o = get(o, HashSet.class, "map");
        String[][] names = {{"java.util.HashMap", "table"}, {"java.util.concurrent.ConcurrentHashMap", "table"}, {"java.util.Hashtable", "table"},
            {"java.util.IdentityHashMap", "table"}, {"java.util.ArrayList", "elementData"}, {"java.util.Vector", "elementData"},
            {"java.util.ArrayDeque", "elements"}, {"java.util.PriorityQueue", "queue"}, {"java.util.concurrent.CopyOnWriteArrayList", "array"},
            {"java.util.concurrent.ArrayBlockingQueue", "items"}, {"java.util.Arrays$ArrayList", "a"},
            {"java.util.ImmutableCollections$ListN", "elements"}, {"java.util.ImmutableCollections$SetN", "elements"},
            {"java.util.ImmutableCollections$MapN", "table"}};
        for (String[] n : names)
            if (Class.forName(n[0]).isInstance(o)) return get(o, Class.forName(n[0]), n[1]);
        return null;
    }
    static Object fixed(String name, int n, Own w) { /* without elements, all would be one object */
        Object[] in = new Object[n == 0 && !name.equals("fixed") ? 1 : n];
        Map<Object, Object> map = new HashMap<>();
        for (int k = 0; k < in.length; k++) map.put(in[k] = "f" + k, w);
        return name.equals("fixed") ? Arrays.asList(in) : name.equals("fewList") ? List.of(in) : name.equals("fewSet") ? Set.of(in) : Map.copyOf(map);
    }
    @SuppressWarnings("unchecked")
    public static void main(String[] a) throws Exception {
        Random r = new Random(7);
        Map<String, long[]> sums = new TreeMap<>();
        long copied = 0;
        for (int i = 0; i < owns.length; i++) {
            Own w = owns[i] = new Own();
            for (Field f : Own.class.getDeclaredFields()) {
                Class<?> c = f.getType();
                boolean isMap = Map.class.isAssignableFrom(c);
                if (!isMap && !Collection.class.isAssignableFrom(c)) continue;
                int n = r.nextInt(3) == 0 ? r.nextInt(40) : r.nextInt(3);
                boolean isFixed = c.isInterface();
                Object o = isFixed ? fixed(f.getName(), n, w)
                    : c == ArrayBlockingQueue.class ? new ArrayBlockingQueue<Object>(50) : c.getDeclaredConstructor().newInstance();
                for (int k = 0; k < n && !isFixed; k++)
                    if (isMap) ((Map<Object, Object>) o).put("k" + k, w); else ((Collection<Object>) o).add("e" + k);
                if (r.nextInt(4) == 0 && n > 2 && !isMap && !isFixed) ((Collection<Object>) o).remove("e1");
                for (int k = r.nextInt(4); k > 0 && o instanceof Queue; k--) ((Queue<Object>) o).poll();
                for (int k = r.nextInt(4); k > 0 && o instanceof Deque; k--) ((Deque<Object>) o).addFirst("g" + k);
                f.set(w, o);
                long size = isMap ? ((Map<Object, Object>) o).size() : ((Collection<Object>) o).size();
                Object[] in = (Object[]) array(o);
                long slots = in == null ? 0 : in.length, used = 0;
                for (int k = 0; k < slots; k++) used += in[k] != null ? 1 : 0;
                long[] s = sums.computeIfAbsent(f.getName(), x -> new long[6]);
                if (c == CopyOnWriteArrayList.class) copied += 24 + (16 + 4 * slots + 7) / 8 * 8;
                long[] one = {1, size == 0 ? 1 : 0, size == 1 ? 1 : 0, size, o instanceof IdentityHashMap || isFixed && isMap ? slots / 2 : slots, 4 * (slots - used)};
                for (int k = 0; k < s.length; k++) s[k] += one[k];
            }
            w.small = 1000 + i % 50; w.large = 10000000000L + i; w.real = i / 3.0; w.text = "text " + i; w.flag = i % 2 == 0; w.letter = (char) ('a' + i % 26);
            w.number = i - 100; w.numbers = new int[i]; w.nothing = i % 10 == 0 ? w : null;
        }
        for (Map.Entry<String, long[]> e : sums.entrySet())
            System.out.println("fill " + e.getKey() + " " + Arrays.toString(e.getValue()).replaceAll("[\\[\\],]", ""));
        System.out.println("fill copied.bytes " + copied);
        System.gc();
        System.out.println("ready"); System.out.flush();
        System.in.read();
    }
}
"""
OPEN = ["--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED"]


def graph(box, *arguments, check=0):
    r = box.run([hw.tool("heapwise"), "graph", "--json", "--top", "0", *arguments], check=check)
    return json.loads(r.stdout) if check == 0 else r.stderr.decode()


def claimed(size):
    """A dump with a HashMap of three entries in a table of four and an ArrayList of three in an array of ten, whose fields say SIZE."""
    texts, body = bytearray(), bytearray()
    record = lambda tag, b: struct.pack(">BII", tag, 0, len(b)) + b
    entries = [0x9010, 0x9020, 0x9030]

    def name(n, text):
        texts.extend(record(1, struct.pack(">Q", n) + text.encode()))
        return n

    def declare(number, text, fields=()):
        texts.extend(record(2, struct.pack(">IQIQ", number, number, 0, name(number + 1, text))))
        body.extend(struct.pack(">BQI6QIHHH", 0x20, number, 0, 0x100 if number != 0x100 else 0, 0, 0, 0, 0, 0, 0, 0, 0, len(fields)))
        for i, (field, kind) in enumerate(fields):
            body.extend(struct.pack(">QB", name(number + 2 + i, field), kind))

    declare(0x100, "java/lang/Object")
    declare(0x200, "java/util/HashMap", [("table", 2), ("size", 10)])
    declare(0x300, "java/util/ArrayList", [("elementData", 2), ("size", 10)])
    declare(0x400, "[Ljava/lang/Object;")
    for n in entries:
        body.extend(struct.pack(">BQIQI", 0x21, n, 0, 0x100, 0))
    for number, kind, array, length in (0xA000, 0x200, 0xA100, 4), (0xB000, 0x300, 0xB100, 10):
        body.extend(struct.pack(">BQIIQ", 0x22, array, 0, length, 0x400) + struct.pack(f">{length}Q", *entries, *[0] * (length - 3)))
        body.extend(struct.pack(">BQIQIQi", 0x21, number, 0, kind, 12, array, size) + struct.pack(">BQ", 0xFF, number))
    return b"JAVA PROFILE 1.0.2\0" + struct.pack(">IQ", 8, 0) + texts + record(0x0C, bytes(body))


def sizes(box):
    """A size that cannot be is not shown: negative, above a list's slots, more entries than objects. A hash table may be above 100 %."""
    for size, want in (3, {"java.util.HashMap": (3, 4), "java.util.ArrayList": (3, 10)}), (-1, {}), (2**31 - 1, {}), (6, {"java.util.HashMap": (6, 4), "java.util.ArrayList": (6, 10)}), (20, {}):
        file = box.path("claimed.hprof")
        with open(file, "wb") as f:
            f.write(claimed(size))
        page = graph(box, "--collections", file)
        hw.equal({r["class"]: (r["elements"], r["slots"]) for r in page["rows"]}, want, f"collections that say {size}")
        hw.equal(page["unknown"], 2 - len(want), f"not known of those that say {size}")


def contents(box):
    """Collections, boxes and conditions on fields in a JVM's dump, against what the program says of itself and against SQL."""
    hw.need("java", "javac", "jmap")
    file, want = box.path("jvm.hprof"), {}
    with Jvm(box, FILL, options=OPEN) as jvm:
        while (line := jvm.p.stdout.readline().decode().split()) != ["ready"]:
            hw.true(line and line[0] == "fill", f"the program's line: {line}")
            want["Fill$Own." + line[1]] = tuple(map(int, line[2:]))
        box.run(["jmap", f"-dump:live,format=b,file={file}", str(jvm.pid)], check=0, timeout=120)
        dump(box, jvm)
    page = graph(box, "--collections", file)
    hw.equal(page["unknown"], 0, "collections whose size is not known")
    copied, have = want.pop("Fill$Own.copied.bytes"), {}
    for r in page["by_holder"]:  # List.of() has two classes
        if r["holder"].startswith("Fill$Own."):
            one = [r[k] for k in ("objects", "empty", "with_one", "elements", "slots", "unused")]
            have[r["holder"]] = tuple(map(sum, zip(one, have.get(r["holder"], [0] * len(one)))))
    hw.equal([(r["bytes"],) for r in page["by_holder"] if r["holder"] == "Fill$Own.copied"], [copied], "bytes, with empty arrays of their own")
    hw.equal(have, want, "collections by holder, against reflection")
    for name in {r["class"] for r in page["rows"]}:
        of = lambda rows, key: sum(r[key] for r in rows if r["class"] == name)
        for key in "objects", "bytes", "unused", "elements", "slots":
            hw.equal(of(page["by_holder"], key), of(page["rows"], key), f"{key} of {name}, by holder and by class")
    counted = dict((n, int(k)) for n, k in ask(box, file, """select c.name, count(*) from heap_graph_object o join heap_graph_class c on c.id = o.type_id
        where o.reachable and c.name in ('java.util.HashMap', 'java.util.ArrayList', 'java.util.TreeMap') group by 1"""))
    hw.equal({r["class"]: r["objects"] for r in page["rows"] if r["class"] in counted}, counted, "collections by class, against SQL")

    boxes = graph(box, "--boxed", file)
    held = {r["holder"]: (r["class"], r["objects"], r["as_numbers"]) for r in boxes["by_holder"] if r["holder"].startswith("Fill$Own.")}
    hw.equal(held, {"Fill$Own.small": ("java.lang.Integer", 300, 1200), "Fill$Own.large": ("java.lang.Long", 300, 2400),
                    "Fill$Own.real": ("java.lang.Double", 300, 2400)}, "boxes by holder")
    copies = dict((n, int(b)) for n, b in ask(box, file, """select c.name, sum(o.self_size) - count(distinct coalesce(p.int_value, p.long_value, p.short_value, p.byte_value,
            p.char_value, p.bool_value, p.double_value, p.float_value)) * max(o.self_size)
        from heap_graph_object o join heap_graph_class c on c.id = o.type_id join heap_graph_object_data d on d.id = o.object_data_id
        join heap_graph_primitive p on p.field_set_id = d.field_set_id and p.field_name = c.name || '.value'
        where o.reachable and c.name in ('java.lang.Integer', 'java.lang.Long', 'java.lang.Short', 'java.lang.Byte', 'java.lang.Double') group by 1"""))
    hw.equal({r["class"]: r["copies"] for r in boxes["rows"] if r["class"] in copies}, copies, "copies, against SQL")
    hw.equal(copies["java.lang.Integer"] >= 16 * 250, True, f"copies of Integer: {copies}")

    def found(where):
        page = graph(box, "--where", where, file)
        hw.equal(len(page["rows"]), page["objects"], f"rows of {where}")
        return page["objects"]

    hw.equal({w: found(w) for w in (
        "class=Fill$Own", "class=Fill$Own and flag=true", "class=Fill$Own and flag!=true and number>=0", "class=Fill$Own and letter=a",
        "class=Fill$Own and number<-90", "class=Fill$Own and Fill$Own.number > 190", "class=Fill$Own and text='text 7'", "class=Fill$Own and text~'text 7'",
        "class=Fill$Own and nothing=null", "class=Fill$Own and nothing!=null and number<0", "class=java.lang.Long and value>10000000100", "class=java.lang.Double and value<1.5 and value>0",
        "class=int[] and @length>290 and @length<300", "class~Fill$Own AND number=0")},
        {"class=Fill$Own": 300, "class=Fill$Own and flag=true": 150, "class=Fill$Own and flag!=true and number>=0": 100, "class=Fill$Own and letter=a": 12,
         "class=Fill$Own and number<-90": 10, "class=Fill$Own and Fill$Own.number > 190": 9, "class=Fill$Own and text='text 7'": 1, "class=Fill$Own and text~'text 7'": 11,
         "class=Fill$Own and nothing=null": 270, "class=Fill$Own and nothing!=null and number<0": 10, "class=java.lang.Long and value>10000000100": 199,
         "class=java.lang.Double and value<1.5 and value>0": 4, "class=int[] and @length>290 and @length<300": 9, "class~Fill$Own AND number=0": 1}, "objects by conditions")
    some = graph(box, "--where", "class=java.util.HashMap and size>20", file)
    hw.equal(sorted(str(r["object"]) for r in some["rows"]), sorted(r[0] for r in ask(box, file, """select o.id from heap_graph_object o
        join heap_graph_class c on c.id = o.type_id join heap_graph_object_data d on d.id = o.object_data_id
        join heap_graph_primitive p on p.field_set_id = d.field_set_id and p.field_name = 'java.util.HashMap.size'
        where o.reachable and c.name = 'java.util.HashMap' and p.int_value > 20""")), "maps by size, against SQL")
    hw.true(some["objects"] > 20, f"maps: {some['objects']}")
    large = graph(box, "--where", "@retained>=100K and @bytes<1K", file)
    top = dict(ask(box, file, """include perfetto module android.memory.heap_graph.dominator_tree; select d.id, dominated_size_bytes from heap_graph_dominator_tree d
        join heap_graph_object o using (id) where dominated_size_bytes >= 102400 and o.self_size < 1024"""))
    hw.equal({str(r["object"]): str(r["retained"]) for r in large["rows"]}, top, "objects by what they retain, against SQL")

    unreached = dict((n, (int(k), int(b))) for n, k, b in ask(box, file, """select c.name, count(*), sum(self_size) from heap_graph_object o
        join heap_graph_class c on c.id = o.type_id where not o.reachable and self_size >= 0 group by 1"""))
    hw.equal({r["class"]: (r["objects"], r["size"]) for r in graph(box, "--unreachable", file)["rows"]}, unreached, "unreachable objects, against SQL")
    hw.true("no object has a field 'sise'" in graph(box, "--where", "sise>1", file, check=1), "an unknown field")
    for form in ["--collections"], ["--boxed"], ["--where", "size>1"]:
        hw.true("a trace has none" in graph(box, *form, box.path("java.trace"), check=1), f"{form} of a trace")
    hw.equal(graph(box, "--where", "class=Fill$Own", box.path("java.trace"))["objects"], 300, "objects of a class in a trace")


if __name__ == "__main__":
    hw.main({"contents": contents, "sizes": sizes})
