// The machines of several runs: each once, whichever runs have it. Pure.
import type { NodeSummary, NodesOfRun } from "../api/views.ts";

export interface NodeOfRun {
  run: { id: string; name: string };
  node: NodeSummary;
}

export interface Machine {
  name: string;
  /** Whose sample of the machine was taken last. */
  newest: NodeOfRun;
  runs: NodeOfRun[];
}

/** By name. Samples of nodes with one name are taken for those of one machine. */
export function machinesOf(all: NodesOfRun[]): Machine[] {
  const machines = new Map<string, Machine>();
  for (const { id, name, nodes } of all) {
    for (const node of nodes) {
      const one = { run: { id, name }, node };
      const machine = machines.get(node.name);
      if (!machine) {
        machines.set(node.name, { name: node.name, newest: one, runs: [one] });
        continue;
      }
      machine.runs.push(one);
      if (node.sample.time > machine.newest.node.sample.time) machine.newest = one;
    }
  }
  return [...machines.values()].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
}
