// Zoom by click, search by Ctrl-F or the word at the top; loads nothing from elsewhere.
(function () {
    "use strict";
    var svg = document.documentElement;
    var frames = [].slice.call(svg.querySelectorAll("g.f")).map(function (g) {
        var rect = g.querySelector("rect"), text = g.querySelector("text");
        return {
            g: g, rect: rect, text: text, name: g.getAttribute("data-n"),
            title: g.querySelector("title").textContent,
            x: +rect.getAttribute("x"), w: +rect.getAttribute("width"),
            y: +rect.getAttribute("y"), fill: rect.getAttribute("fill")
        };
    });
    var all = frames[0], info = svg.getElementById("info"), found = svg.getElementById("found");
    var reset = svg.getElementById("reset"), search = svg.getElementById("search");
    var pattern = null;

    function label(f, x, w) {
        var room = Math.floor((w - 6) / 6.6);
        f.text.setAttribute("x", x + 3);
        f.text.textContent = room < 3 ? "" :
            f.name.length <= room ? f.name : f.name.slice(0, room - 2) + "..";
    }

    function zoom(to) {
        var scale = all.w / to.w;
        frames.forEach(function (f) {
            var above = f.x <= to.x + 1e-6 && f.x + f.w >= to.x + to.w - 1e-6 &&
                (f === to || f.y > to.y);
            var below = f.x >= to.x - 1e-6 && f.x + f.w <= to.x + to.w + 1e-6 && f.y <= to.y;
            var x = above ? all.x : all.x + (f.x - to.x) * scale;
            var w = above ? all.w : f.w * scale;
            f.g.setAttribute("display", above || below ? "inline" : "none");
            f.rect.setAttribute("x", x);
            f.rect.setAttribute("width", w);
            f.rect.setAttribute("opacity", above && f !== to ? 0.5 : 1);
            label(f, x, w);
        });
        reset.setAttribute("visibility", to === all ? "hidden" : "visible");
    }

    function find(text) {
        var lines = [], covered = 0, end = -1;
        pattern = null;
        if (text) {
            try {
                pattern = new RegExp(text, "i");
            } catch (e) {
                found.textContent = "no regular expression: " + text;
                return;
            }
        }
        frames.forEach(function (f) {
            var hit = pattern && f !== all && pattern.test(f.name);
            f.rect.setAttribute("fill", hit ? "rgb(230,0,230)" : f.fill);
            if (hit)
                lines.push(f);
        });
        lines.sort(function (a, b) { return a.x - b.x || b.w - a.w; });
        lines.forEach(function (f) { // each stack once, even if it matches several times
            if (f.x + f.w <= end + 1e-6)
                return;
            covered += f.x + f.w - Math.max(f.x, end);
            end = f.x + f.w;
        });
        found.textContent = pattern ? "matched " + (100 * covered / all.w).toFixed(1) + "%" : "";
    }

    function ask() {
        var text = window.prompt("Search (regular expression, case does not matter):", "");
        if (text !== null)
            find(text);
    }

    frames.forEach(function (f) {
        f.g.addEventListener("click", function () { zoom(f); });
        f.g.addEventListener("mouseover", function () { info.textContent = f.title; });
        f.g.addEventListener("mouseout", function () { info.textContent = ""; });
        label(f, f.x, f.w);
    });
    reset.addEventListener("click", function () { zoom(all); });
    search.addEventListener("click", ask);
    window.addEventListener("keydown", function (e) {
        if (e.key === "Escape") {
            zoom(all);
            find("");
        } else if (e.key === "F3" || (e.ctrlKey && e.key === "f")) {
            e.preventDefault();
            ask();
        }
    });
})();
