// Draws the data of the page: a flamegraph on a canvas (only visible boxes are laid out) and a table.
(function () {
    "use strict";
    var D = JSON.parse(document.getElementById("data").textContent);
    var $ = function (id) { return document.getElementById(id); };
    var METRICS = ["space", "objects", "alloc_space", "alloc_objects"];
    var WORDS = ["Live size", "Live count", "Total size", "Total count"];
    if (D.self.length > 10) {
        METRICS.push("temporary_space", "temporary_objects");
        WORDS.push("Freed within 1 s, size", "Freed within 1 s, count");
    }
    var ROW = 20, MERGE = 3;
    var F = D.functions.length;

    // ---- trees: columns by node; node 0 is the root, parents precede children ----

    D.self.forEach(function (column) { // null: a variance that nobody knows
        column.forEach(function (v, i) {
            if (v === null)
                column[i] = Infinity;
        });
    });

    // self: four metrics, the variance of each, live samples, all samples; two more metrics, the variance of each
    function column(m) {
        return m < 4 ? m : m + 6;
    }

    function finish(t) {
        var n = t.parent.length, k, i;
        t.total = t.self.map(function (column) { return Float64Array.from(column); });
        t.depth = new Uint16Array(n);
        t.first = new Int32Array(n).fill(-1);
        t.next = new Int32Array(n).fill(-1);
        t.maxDepth = 0;
        for (i = 1; i < n; i++) {
            t.depth[i] = t.depth[t.parent[i]] + 1;
            t.maxDepth = Math.max(t.maxDepth, t.depth[i]);
        }
        for (i = n - 1; i > 0; i--)
            for (k = 0; k < t.total.length; k++)
                t.total[k][t.parent[i]] += t.total[k][i];
        return t;
    }

    function sortBy(t, metric) { // children by descending totals
        var n = t.parent.length, order = new Uint32Array(n - 1), i, c, v = t.total[column(metric)];
        for (i = 1; i < n; i++)
            order[i - 1] = i;
        order.sort(function (a, b) { return v[a] - v[b] || b - a; });
        t.first.fill(-1);
        for (i = 0; i < n - 1; i++) {
            c = order[i];
            t.next[c] = t.first[t.parent[c]];
            t.first[t.parent[c]] = c;
        }
    }

    function inverted(t) {
        var out = { parent: [0], fn: [-1], self: t.self.map(function () { return [0]; }) };
        var ids = new Map(), i, n, at, key, k;
        for (i = 1; i < t.parent.length; i++) {
            if (!t.self.some(function (column) { return column[i]; }))
                continue;
            at = 0;
            for (n = i; n !== 0; n = t.parent[n]) {
                key = at * F + t.fn[n];
                if (!ids.has(key)) {
                    ids.set(key, out.parent.length);
                    out.parent.push(at);
                    out.fn.push(t.fn[n]);
                    for (k = 0; k < out.self.length; k++)
                        out.self[k].push(0);
                }
                at = ids.get(key);
            }
            for (k = 0; k < out.self.length; k++)
                out.self[k][at] += t.self[k][i];
        }
        return finish(out);
    }

    var down = finish({ parent: D.parent, fn: D.function, self: D.self });
    var up = null, tree = down, metric = D.metric, zoomed = 0, pattern = null;

    // ---- figures ----

    function scaled(v, step, units) {
        var u = 0;
        while (u + 1 < units.length && Math.abs(v) >= step * 0.99995) {
            v /= step;
            u++;
        }
        return v.toFixed(u === 0 ? 0 : Math.abs(v) < 9.995 ? 2 : 1) + (units[u] && " " + units[u]);
    }

    function figure(v) {
        return metric % 2 === 0 ? scaled(v, 1024, ["B", "KiB", "MiB", "GiB", "TiB"])
            : scaled(v, 1000, ["", "k", "M", "G"]);
    }

    // Two standard errors, as in doc/design/estimates.md.
    function error(get) {
        var live = get(8), k = metric < 2 ? live : get(9), v = get(column(metric)), step = D.interval;
        if (step <= 1)
            return 0;
        if (metric >= 4)
            return 2 * Math.sqrt(get(metric + 8));
        if (metric === 0 || !D.lacksVariances)
            return 2 * Math.sqrt(get(4 + metric));
        if (metric === 2)
            return live > 0 && get(4) < step * step * live ? 2 * Math.sqrt(get(4) / live * k)
                : 2 * step * Math.sqrt(k);
        return k > 0 && v > k ? 2 * v / Math.sqrt(k) : 0;
    }

    function nodeText(i) {
        var t = tree, get = function (k) { return t.total[k][i]; }, v = get(column(metric)), e = error(get);
        var all = t.total[column(metric)][0], f = t.fn[i];
        var lines = [i ? D.functions[f][0] : "all"];
        if (i && D.functions[f][1])
            lines.push(D.functions[f][1]);
        lines.push(figure(v) + (e === Infinity && v > 0 ? ", error unknown, " : e > 0 && v > 0 ? " ±" + (100 * e / v).toFixed(e / v < 0.0995 ? 1 : 0) + "%" : "") +
            "  " + (all > 0 ? (100 * v / all).toFixed(2) : "0") + "% of all" +
            (i ? ", " + (100 * v / (t.total[column(metric)][t.parent[i]] || 1)).toFixed(1) + "% of what is above" : ""));
        lines.push("self " + figure(t.self[column(metric)][i]) +
            (metric < 4 ? ", " + get(metric < 2 ? 8 : 9) + " samples" : ""));
        return lines;
    }

    // ---- the graph ----

    var graph = $("graph"), canvas = graph.querySelector("canvas"), g = canvas.getContext("2d");
    var boxes = [], rows = 0, height = document.createElement("div");
    graph.appendChild(height);

    function hue(f) {
        var text = D.functions[f][1] || D.functions[f][0], h = 0, i;
        for (i = 0; i < text.length; i++)
            h = (h * 31 + text.charCodeAt(i)) | 0;
        return 60 + Math.abs(h) % 200;
    }
    var hues = D.functions.map(function (unused, f) { return hue(f); });

    function cut(text, room) { // keeps the end, the most informative part of a name
        if (text.length <= room)
            return text;
        var head = Math.floor((room - 1) / 3);
        return text.slice(0, head) + "…" + text.slice(text.length - (room - 1 - head));
    }

    function draw() {
        var ratio = window.devicePixelRatio || 1, w = graph.clientWidth, h = graph.clientHeight;
        var css = getComputedStyle(document.documentElement), t = tree, v = t.total[column(metric)];
        var light = css.getPropertyValue("--light"), hit = css.getPropertyValue("--hit");
        var top = graph.scrollTop, path = [], i, x, c, stack, at, small;
        canvas.width = w * ratio;
        canvas.height = h * ratio;
        canvas.style.width = w + "px";
        canvas.style.height = h + "px";
        g.setTransform(ratio, 0, 0, ratio, 0, 0);
        g.fillStyle = css.getPropertyValue("--bg");
        g.fillRect(0, 0, w, h);
        g.font = "12px system-ui, sans-serif";
        g.textBaseline = "middle";
        boxes = [];
        rows = 0;
        function box(node, depth, x0, width, count) {
            var y = depth * ROW - top, f = t.fn[node], name, match;
            rows = Math.max(rows, depth + 1);
            if (y + ROW < 0 || y > h)
                return;
            boxes.push({ node: node, x: x0, y: y, w: width, count: count });
            match = pattern && !count && node && pattern.test(D.functions[f][0]);
            g.fillStyle = count ? css.getPropertyValue("--line") : match ? hit :
                node === 0 ? css.getPropertyValue("--line") : "hsl(" + hues[f] + " 45% " + light + ")";
            g.fillRect(x0, y, Math.max(width - 0.6, 0.5), ROW - 1);
            if (width < 34 || count)
                return;
            name = node ? D.functions[f][0] : "all " + figure(v[0]);
            g.fillStyle = node === 0 ? css.getPropertyValue("--fg") : match ? "#fff" : "#101410";
            g.fillText(cut(name, Math.floor((width - 8) / 6.8)), x0 + 4, y + ROW / 2, width - 7);
        }
        for (i = zoomed; i !== 0; i = t.parent[i])
            path.unshift(i);
        path.unshift(0);
        g.globalAlpha = 0.55;
        path.slice(0, -1).forEach(function (node, d) { box(node, d, 0, w, 0); });
        g.globalAlpha = 1;
        stack = v[zoomed] > 0 ? [[zoomed, 0]] : [];
        while (stack.length) {
            at = stack.pop();
            i = at[0];
            x = at[1];
            box(i, t.depth[i], x, v[i] / v[zoomed] * w, 0);
            small = 0;
            for (c = t.first[i]; c !== -1; c = t.next[c]) { // wide ones first
                if (v[c] / v[zoomed] * w < MERGE)
                    break;
                stack.push([c, x]);
                x += v[c] / v[zoomed] * w;
            }
            for (at = 0; c !== -1; c = t.next[c]) {
                small += v[c];
                at += v[c] > 0;
            }
            if (small / v[zoomed] * w >= 1)
                box(i, t.depth[i] + 1, x, small / v[zoomed] * w, at);
        }
        height.style.height = Math.max(rows * ROW - h, 0) + "px";
    }

    function boxAt(e) {
        var r = canvas.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top, i;
        for (i = boxes.length - 1; i >= 0; i--)
            if (x >= boxes[i].x && x < boxes[i].x + boxes[i].w && y >= boxes[i].y && y < boxes[i].y + ROW)
                return boxes[i];
        return null;
    }

    function zoom(node) {
        zoomed = node;
        draw();
    }

    canvas.addEventListener("mousemove", function (e) {
        var b = boxAt(e), tip = $("tip"), text;
        tip.style.display = b ? "block" : "none";
        if (!b)
            return;
        text = b.count ? [b.count + " narrow frames; zoom in to see them"] : nodeText(b.node);
        tip.textContent = text.join("\n");
        $("status").textContent = text.join("   ");
        tip.style.left = Math.max(0, Math.min(e.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
        tip.style.top = Math.max(0, Math.min(e.clientY + 16, innerHeight - tip.offsetHeight - 8)) + "px";
    });
    canvas.addEventListener("mouseleave", function () { $("tip").style.display = "none"; });
    canvas.addEventListener("click", function (e) {
        var b = boxAt(e);
        if (b)
            zoom(b.node);
    });
    graph.addEventListener("scroll", draw);
    window.addEventListener("resize", draw);

    // ---- the table ----

    var order = "self", table = $("table").querySelector("tbody");

    function functionValues() { // a function counts once per stack, even if it recurs
        var self = new Float64Array(F), total = new Float64Array(F), open = new Int32Array(F);
        var t = down, v = t.total[column(metric)], i = t.first[0], f;
        while (i > 0) {
            f = t.fn[i];
            self[f] += t.self[column(metric)][i];
            if (open[f]++ === 0)
                total[f] += v[i];
            if (t.first[i] !== -1) {
                i = t.first[i];
                continue;
            }
            while (i > 0) {
                open[t.fn[i]]--;
                if (t.next[i] !== -1) {
                    i = t.next[i];
                    break;
                }
                i = t.parent[i];
            }
        }
        return { self: self, total: total };
    }

    function fill() {
        var v = functionValues(), all = down.total[column(metric)][0], ids = [], f, shown;
        for (f = 0; f < F; f++)
            if (v.total[f] > 0 && (!pattern || pattern.test(D.functions[f][0])))
                ids.push(f);
        ids.sort(function (a, b) {
            return order === "name" ? (D.functions[a][0] < D.functions[b][0] ? -1 : 1) :
                order === "self" ? v.self[b] - v.self[a] || v.total[b] - v.total[a] : v.total[b] - v.total[a];
        });
        shown = ids.slice(0, 500);
        table.textContent = "";
        shown.forEach(function (id) {
            var tr = document.createElement("tr"), small = document.createElement("small");
            [D.functions[id][0], figure(v.self[id]), figure(v.total[id]),
                (all > 0 ? 100 * v.total[id] / all : 0).toFixed(1) + "%"].forEach(function (text) {
                var td = document.createElement("td");
                td.textContent = text;
                tr.appendChild(td);
            });
            small.textContent = "  " + D.functions[id][1];
            tr.firstChild.appendChild(small);
            tr.firstChild.title = D.functions[id][0];
            tr.tabIndex = 0;
            tr.addEventListener("click", function () { look("\"" + D.functions[id][0] + "\""); });
            tr.addEventListener("keydown", function (e) { if (e.key === "Enter") tr.click(); });
            table.appendChild(tr);
        });
        $("status").textContent = ids.length + " functions" +
            (ids.length > shown.length ? ", the first " + shown.length + " in the table" : "");
    }

    // ---- search ----

    function escape(text) {
        return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    }

    function look(text) {
        var m = /^\/(.*)\/(i?)$/.exec(text), exact = /^"(.+)"$/.exec(text), sum = 0, stack = [0], i, c;
        $("search").value = text;
        $("found").textContent = "";
        try {
            pattern = !text ? null : m ? new RegExp(m[1], m[2]) :
                exact ? new RegExp("^" + escape(exact[1]) + "$") : new RegExp(escape(text), "i");
        } catch (e) {
            pattern = null;
            $("found").textContent = "no regular expression";
        }
        while (pattern && stack.length) { // a match includes everything below it
            i = stack.pop();
            if (i && pattern.test(D.functions[tree.fn[i]][0])) {
                sum += tree.total[column(metric)][i];
                continue;
            }
            for (c = tree.first[i]; c !== -1; c = tree.next[c])
                stack.push(c);
        }
        if (pattern)
            $("found").textContent = figure(sum) + ", " +
                (100 * sum / (tree.total[column(metric)][0] || 1)).toFixed(1) + "%";
        draw();
    }

    // ---- controls ----

    function show() {
        if ($("invert").getAttribute("aria-pressed") === "true")
            tree = up = up || inverted(down);
        else
            tree = down;
        zoomed = 0;
        sortBy(down, metric);
        if (tree !== down)
            sortBy(tree, metric);
        fill();
        look($("search").value);
    }

    function invert() {
        var b = $("invert");
        b.setAttribute("aria-pressed", b.getAttribute("aria-pressed") !== "true");
        show();
    }

    METRICS.forEach(function (name, i) {
        var o = document.createElement("option");
        o.value = i;
        o.textContent = WORDS[i] + " (" + name + ")";
        $("metric").appendChild(o);
    });
    $("metric").value = metric;
    $("metric").addEventListener("change", function () {
        metric = +$("metric").value;
        show();
    });
    $("invert").addEventListener("click", invert);
    $("reset").addEventListener("click", function () { zoom(0); });
    $("search").addEventListener("input", function () {
        look($("search").value);
        fill();
    });
    $("theme").addEventListener("click", function () {
        var root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
        var now = root.dataset.theme || (dark ? "dark" : "light");
        root.dataset.theme = now === "dark" ? "light" : "dark";
        draw();
    });
    $("table").querySelector("thead").addEventListener("click", function (e) {
        if (!e.target.dataset.by)
            return;
        order = e.target.dataset.by;
        fill();
    });
    document.addEventListener("keydown", function (e) {
        var typing = e.target === $("search");
        if (e.key === "Escape") {
            look("");
            fill();
            zoom(0);
            $("search").blur();
        } else if (typing) {
            return;
        } else if (e.key === "/") {
            e.preventDefault();
            $("search").focus();
        } else if (e.key === "i" || e.key === "I") {
            invert();
        } else if (e.key >= "1" && +e.key <= METRICS.length) {
            $("metric").value = metric = +e.key - 1;
            show();
        } else if (e.key === "ArrowUp" && e.target === graph && zoomed) {
            e.preventDefault();
            zoom(tree.parent[zoomed]);
        } else if (e.key === "ArrowDown" && e.target === graph && tree.first[zoomed] !== -1) {
            e.preventDefault();
            zoom(tree.first[zoomed]);
        } else if ((e.key === "ArrowRight") && e.target === graph && tree.next[zoomed] !== -1) {
            e.preventDefault();
            zoom(tree.next[zoomed]);
        }
    });
    document.title = D.title;
    $("title").textContent = D.title;
    $("note").textContent = D.note;
    show();
})();
