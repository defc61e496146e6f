"""The program of the sample "report": reads sales, groups them, and renders a page a month.

What a look at its memory should find: every row is kept as a dictionary (read_sales) although only sums
are needed; the rendered pages are the peak, and are dropped one by one.
"""
import collections
import json
import time


def read_sales(month, n=2500):
    return [{"month": month, "customer": f"customer-{i % 400}", "price": i * 0.25, "note": "x" * (i % 90)}
            for i in range(n)]


def group_by_customer(rows):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["customer"]].append(row)
    return groups


def render(groups):
    return "".join(json.dumps({"customer": c, "rows": rows}) for c, rows in groups.items())


def main():
    sales, pages = [], []
    for month in range(12):
        rows = read_sales(month)
        sales.append(rows)
        pages.append(render(group_by_customer(rows)))
        if len(pages) > 4:
            pages.pop(0)
        time.sleep(0.2)
    print(sum(len(p) for p in pages), sum(len(s) for s in sales))


main()
