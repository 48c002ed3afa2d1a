# SPDX-License-Identifier: Apache-2.0
"""compare.py FILE: the rows that peers.sh collected, as a table of ratios.

A ratio is kvstore's median over the peer's, both of one round and each over its bytes; shown are the
median over the rounds and the range. Of a peer's variants the faster one of the round counts."""
import collections
import json
import re
import statistics
import sys

# A peer's column, and its variants.
PEERS = collections.OrderedDict([
    ("MXNet C API", ("mxnet-capi", "mxnet-capi-t2")),
    ("MXNet Python", ("mxnet", "mxnet-t2")),
    ("PyTorch", ("torch-fused", "torch-foreach")),
    ("Open MPI", ("openmpi", "openmpi-inplace", "openmpi-nb")),
    ("gloo", ("gloo",)),
    ("Horovod", ("horovod", "horovod-cycle0.1")),
])
BEST_MXNET = ("MXNet C API", "MXNet Python")
BEST_ALLREDUCE = ("Open MPI", "gloo", "Horovod")

# What the project wants: the first pattern that matches "WORKLOAD BYTES" holds; at most that ratio.
TARGETS = (
    (r"W1_\S* 4096$", ("MXNet C API",), 0.03),
    (r"W1_\S* 262144$", ("MXNet C API",), 0.2),
    (r"W1_\S* 4194304$", ("MXNet C API",), 0.35),
    (r"W1_\S* 67108864$", BEST_MXNET, 0.28),
    (r"W2_", ("MXNet C API",), 0.12),
    (r"W3_\S*sgdmom", BEST_MXNET, 0.2),
    (r"W3_", BEST_MXNET, 0.25),
    (r"W4_tcp_latency_s1 ", ("MXNet Python",), 0.3),
    (r"W4_tcp_pushpull_s1 67108864$", ("MXNet Python",), 0.5),
    (r"W4_latency_s1 ", ("MXNet Python",), 0.05),
    (r"W4_pushpull_s1 67108864$", ("MXNet Python",), 0.12),
    (r"W4_resnet50_s1 ", ("MXNet Python",), 0.22),
    (r"W5_latency ", ("Open MPI",), 2.0),
    (r"W5_latency ", ("Horovod",), 0.05),
    (r"W5_allreduce (4096|262144)$", ("Open MPI",), 1.0),
    (r"W5_allreduce 67108864$", BEST_ALLREDUCE, 0.9),
    (r"W5_resnet50 ", BEST_ALLREDUCE, 1.0),
    (r"W7_(sgdmom|adam) ", ("PyTorch",), 1.0),
)
# Of figures without a peer: (workload, what is compared, at most, unit, divisor).
LIMITS = (
    ("W8_startup_first_pushpull", "median_s", 20, "ms", 1e-3),
    ("W8_rss_base", "size_bytes", 10, "MB", 1e6),
    ("W8_rss_100MB_init", "rss_ratio", 1.05, "x the data", 1),
    ("W8_rss_100MB_after_k2", "rss_ratio", 1.1, "x the data", 1),
)


def read(path):
    """{(peer, workload, size, procs): {round: [row, ...]}}"""
    rows = collections.OrderedDict()
    with open(path) as file:
        for line in file:
            row = json.loads(line)
            size = 0 if row["workload"].startswith(("W7_", "W8_")) else row["size_bytes"]
            key = (row["peer"], row["workload"], size, row["procs"])
            rows.setdefault(key, {}).setdefault(row.get("round", 1), []).append(row)
    return rows


def counterpart(workload):
    """The peers' row for the same work: they have neither pushpull nor lists of their own in it."""
    if workload.startswith("W4"):
        return workload.replace("_tcp", "")
    name = workload.replace("_pushpull", "")
    return name.replace("_list", "") if name.startswith("W3") else name


def cost(rows):
    """Seconds a byte, the median over the rows of a round."""
    return statistics.median(row["median_s"] / row["size_bytes"] for row in rows)


def ratios(rows, key, peers):
    """kvstore's cost over that of the fastest of `peers`, a number for each round that has both."""
    result = []
    for number, own in rows[key].items():
        others = [rows[peer_key][number] for peer_key in
                  ((peer, counterpart(key[1]), key[2], key[3]) for name in peers for peer in PEERS[name])
                  if number in rows.get(peer_key, {})]
        if others:
            result.append(cost(own) / min(cost(other) for other in others))
    return result


def spread(values, form="%.3f"):
    if not values:
        return "-"
    middle = form % statistics.median(values)
    return middle if len(values) == 1 else "%s (%s-%s)" % (middle, form % min(values), form % max(values))


def seconds(value):
    return "%.2f us" % (value * 1e6) if value < 1e-3 else "%.2f ms" % (value * 1e3)


def target(rows, key):
    matching = [pattern for pattern, _, _ in TARGETS if re.match(pattern, "%s %d" % key[1:3])]
    verdicts = []
    for pattern, peers, limit in TARGETS:
        if pattern in matching[:1]:
            got = ratios(rows, key, peers)
            verdict = "-" if not got else "reached" if statistics.median(got) <= limit else "missed"
            verdicts.append("<= %g x %s: %s" % (limit, " / ".join(peers), verdict))
    return "; ".join(verdicts)


def print_table(head, lines):
    widths = [max(len(line[i]) for line in [head] + lines) for i in range(len(head))]
    for line in [head, ["-" * width for width in widths]] + lines:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |")


def compare(rows):
    lines = []
    for key, rounds in rows.items():
        peer, workload, size, procs = key
        if peer != "kvstore" or workload.startswith("W8"):
            continue
        own = [row for number in rounds.values() for row in number]
        triad = [row["of_triad"] for row in own if row.get("of_triad")]
        lines.append([workload, str(size or own[0]["size_bytes"]), str(procs),
                      seconds(statistics.median(row["median_s"] for row in own))]
                     + [spread(ratios(rows, key, [name])) for name in PEERS]
                     + [spread(triad, "%.2f"), target(rows, key)])
    if lines:
        print("kvstore's time / the peer's: median over rounds (range)\n")
        print_table(["workload", "bytes", "threads", "kvstore"] + list(PEERS) + ["of triad", "target"], lines)


def limits(rows):
    lines = []
    for workload, member, most, unit, divisor in LIMITS:
        line = [workload]
        for peer in ("kvstore", "mxnet"):
            found = [row[member] / divisor for key, rounds in rows.items() if key[:2] == (peer, workload)
                     for number in rounds.values() for row in number]
            line.append(spread(found, "%.2f"))
            if peer == "kvstore" and found:
                verdict = "reached" if statistics.median(found) <= most else "missed"
        if line[1] != "-":
            lines.append(line + ["<= %g %s: %s" % (most, unit, verdict)])
    if lines:
        print("\nstart and memory\n")
        print_table(["workload", "kvstore", "MXNet Python", "target"], lines)


def main():
    rows = read(sys.argv[1])
    compare(rows)
    limits(rows)


if __name__ == "__main__":
    main()
