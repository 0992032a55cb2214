"""What Dataset.stats() says."""

from typing import Any, Dict, List


def text_of(steps: List[Dict[str, Any]]) -> str:
    """A paragraph a step, and the step that took longest: what bounds the dataset. Nothing where nothing was read."""
    if not any(step["blocks"] for step in steps):
        return ""
    lines = []
    for number, step in enumerate(steps):
        busy = step["busy_ns"] / 1e9
        lines.append(f"Operator {number} {step['name']}: {step['blocks']} blocks")
        lines.append(f"* Rows: {step['rows_in']} in, {step['rows_out']} out" if step["rows_in"]
                     else f"* Rows: {step['rows_out']} out")
        lines.append(f"* Bytes: {step['bytes_out'] / 1e6:.1f} MB out")
        lines.append(f"* Busy: {busy:.3f} s in all threads, {step['longest_ns'] / 1e6:.1f} ms for the longest block")
    # A step that reads holds those before it no more than a function does: each has only its own time.
    busiest = max(steps, key=lambda step: step["busy_ns"], default=None)
    if busiest and busiest["busy_ns"]:
        rate = busiest["rows_out"] / (busiest["busy_ns"] / 1e9)
        lines.append(f"Bottleneck: {busiest['name']}, which makes {rate:,.0f} rows/s in one thread")
    return "\n".join(lines) + "\n"
