// Which charts there are of nodes, and what of the server's numbers each shows. Pure.
import type { NodeSummary, SamplesJson } from "../api/views.ts";
import type { Unit } from "../chart/chart.tsx";
import type { Points } from "../chart/series.ts";
import { byteRateText, bytesText, coresText, numberText, percentText } from "../format/number.ts";
import { durationText } from "../format/time.ts";

export interface ChartLine {
  label: string;
  points: Points;
}

export interface SampleChart {
  title: string;
  unit: Unit;
  lines: ChartLine[];
  /** A line alone says its name too. */
  isNamed?: boolean;
}

/** Between ticks of bytes: 1, 2, 4, … 512 of a unit. */
const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

export const RATIO: Unit = { text: percentText, atLeast: 1 };
export const BYTES: Unit = { text: bytesText, atLeast: 1024, steps: BYTE_STEPS };
export const BYTES_PER_SECOND: Unit = { text: byteRateText, atLeast: 1024, steps: BYTE_STEPS };
export const COUNT: Unit = { text: numberText, atLeast: 1 };
const CORES: Unit = { text: coresText, atLeast: 1 };
const SECONDS: Unit = { text: durationText, atLeast: 1e-6 };
const WATTS: Unit = { text: (value) => `${numberText(Math.round(value))} W`, atLeast: 100 };
const CELSIUS: Unit = { text: (value) => `${numberText(value)} °C`, atLeast: 50 };
const PER_SECOND: Unit = { text: (value) => `${numberText(value)}/s`, atLeast: 1 };

/** So many lines can be told apart, more or less. */
export const MOST_LINES = 16;

type Curve = SamplesJson["series"][string];

/** A curve as charts take it: they zoom by `report`, which is the time. */
function pointsOf(time: number[], curve: Curve): Points {
  const column = (values: (number | null)[]) => time.map((_, at) => values[at] ?? null);
  return { report: time, time, min: column(curve.min), max: column(curve.max), last: column(curve.mean), notFinite: 0 };
}

function hasNumbers(curve: Curve | undefined): curve is Curve {
  return curve?.mean.some((value) => value !== null) ?? false;
}

function lineOf(samples: SamplesJson, name: string, label: string): ChartLine[] {
  const curve = samples.series[name];
  return hasNumbers(curve) ? [{ label, points: pointsOf(samples.time, curve) }] : [];
}

function greatest(line: ChartLine): number {
  return line.points.max.reduce<number>((most, value) => Math.max(most, value ?? 0), 0);
}

/** The lines that reach highest, in the order that they came in. */
function highest(lines: ChartLine[]): ChartLine[] {
  if (lines.length <= MOST_LINES) return lines;
  const chosen = new Set([...lines].sort((a, b) => greatest(b) - greatest(a)).slice(0, MOST_LINES));
  return lines.filter((line) => chosen.has(line));
}

/** "rank 3", "data process 7", "driver". */
export function processLabel(id: string, role: string, ranks: NodeSummary["ranks"]): string {
  const rank = ranks[id];
  if (rank !== undefined) return `rank ${rank}`;
  if (id === "0") return role || "agent";
  return role === "data" ? `data process ${id}` : `${role || "process"} ${id}`;
}

function gpuLines(samples: SamplesJson, number: string): ChartLine[] {
  const gpus = Object.entries(samples.about.gpus ?? {}).sort(([, a], [, b]) => (a.index ?? 0) - (b.index ?? 0));
  return gpus.flatMap(([uuid, gpu]) => lineOf(samples, `gpu/${uuid}/${number}`, `GPU ${gpu.index ?? uuid}`));
}

function processLines(samples: SamplesJson, number: string, ranks: NodeSummary["ranks"]): ChartLine[] {
  const ids = Object.entries(samples.about.processes ?? {}).sort(([a], [b]) => Number(a) - Number(b));
  return highest(
    ids.flatMap(([id, { role }]) =>
      lineOf(samples, `process/${id}/${number}`, processLabel(id, role ?? "", ranks)),
    ),
  );
}

/** All charts of one node that have something to show. */
export function nodeCharts(samples: SamplesJson, ranks: NodeSummary["ranks"]): SampleChart[] {
  const own = (title: string, unit: Unit, ...named: [string, string][]): SampleChart => ({
    title,
    unit,
    lines: named.flatMap(([name, label]) => lineOf(samples, name, label)),
  });
  const charts = [
    own("CPU", RATIO, ["cpu_ratio", "busy"]),
    own("Load", CORES, ["load_1m", "of the last minute"], ["cores", "cores"]),
    own(
      "Memory",
      BYTES,
      ["memory_used_bytes", "used"],
      ["memory_total_bytes", "all"],
      ["group_memory_used_bytes", "of the control group"],
      ["group_memory_limit_bytes", "its limit"],
      ["swap_used_bytes", "swapped"],
    ),
    { title: "GPU", unit: RATIO, lines: gpuLines(samples, "utilization_ratio") },
    { title: "GPU memory", unit: BYTES, lines: gpuLines(samples, "memory_used_bytes") },
    { title: "GPU power", unit: WATTS, lines: gpuLines(samples, "power_watts") },
    { title: "GPU temperature", unit: CELSIUS, lines: gpuLines(samples, "temperature_celsius") },
    own("Network", BYTES_PER_SECOND, ["network_received_bytes_per_s", "received"], ["network_sent_bytes_per_s", "sent"]),
    own("Disks", BYTES_PER_SECOND, ["disk_read_bytes_per_s", "read"], ["disk_written_bytes_per_s", "written"]),
    own("Disk space", BYTES, ["disk_free_bytes", "free"], ["disk_size_bytes", "all"]),
    { title: "Cores used by processes", unit: CORES, lines: processLines(samples, "cpu_cores", ranks) },
    { title: "Step time of ranks", unit: SECONDS, lines: processLines(samples, "step_s", ranks) },
    { title: "Memory of processes", unit: BYTES, lines: processLines(samples, "rss_bytes", ranks) },
    { title: "GPU memory of processes", unit: BYTES, lines: processLines(samples, "gpu_memory_bytes", ranks) },
    { title: "Threads of processes", unit: COUNT, lines: processLines(samples, "threads", ranks) },
    {
      title: "Read from disks by processes",
      unit: BYTES_PER_SECOND,
      lines: processLines(samples, "read_bytes_per_s", ranks),
    },
    {
      title: "Written to disks by processes",
      unit: BYTES_PER_SECOND,
      lines: processLines(samples, "written_bytes_per_s", ranks),
    },
  ];
  return charts.filter((chart) => chart.lines.length > 0);
}

/** Those of one worker; `samples` are of its node. */
export function workerCharts(samples: SamplesJson, worker: number): SampleChart[] {
  const own = (title: string, unit: Unit, ...named: [string, string][]): SampleChart => ({
    title,
    unit,
    lines: named.flatMap(([name, label]) => lineOf(samples, `process/${worker}/${name}`, label)),
  });
  const charts = [
    own("Step time", SECONDS, ["step_s", "step, without waiting in collectives"]),
    own("Cores used", CORES, ["cpu_cores", "cores"]),
    own("Memory", BYTES, ["rss_bytes", "resident"]),
    own("GPU memory", BYTES, ["gpu_memory_bytes", "on all GPUs"]),
    own("Disks", BYTES_PER_SECOND, ["read_bytes_per_s", "read"], ["written_bytes_per_s", "written"]),
    own("Threads", COUNT, ["threads", "threads"]),
    own("Descriptors", COUNT, ["descriptors", "open"]),
  ];
  return charts.filter((chart) => chart.lines.length > 0);
}

/** Numbers that fall together, added up, or their mean. The nodes' times are parts of one raster. */
function combined(curves: { time: number[]; curve: Curve }[], isMean: boolean): { time: number[]; curve: Curve } {
  const time = [...new Set(curves.flatMap((one) => one.time))].sort((a, b) => a - b);
  const at = new Map(time.map((place, index) => [place, index]));
  const together = (which: keyof Curve) => {
    const sums = time.map(() => ({ sum: 0, count: 0 }));
    for (const { time: places, curve } of curves) {
      places.forEach((place, index) => {
        const value = curve[which][index];
        const sum = sums[at.get(place) ?? -1];
        if (value === null || value === undefined || !sum) return;
        sum.sum += value;
        sum.count++;
      });
    }
    return sums.map(({ sum, count }) => (count === 0 ? null : isMean ? sum / count : sum));
  };
  return { time, curve: { mean: together("mean"), min: together("min"), max: together("max") } };
}

export interface NamedSamples {
  name: string;
  samples: SamplesJson;
}

/** Of each node one line: its own number, or of its GPUs' numbers the mean or the sum. */
function clusterLines(all: NamedSamples[], name: string, ofGpus: "" | "mean" | "sum" = ""): ChartLine[] {
  return highest(
    all.flatMap(({ name: label, samples }) => {
      if (!ofGpus) return lineOf(samples, name, label);
      const curves = Object.keys(samples.about.gpus ?? {})
        .map((uuid) => samples.series[`gpu/${uuid}/${name}`])
        .filter(hasNumbers)
        .map((curve) => ({ time: samples.time, curve }));
      if (curves.length === 0) return [];
      const { time, curve } = combined(curves, ofGpus === "mean");
      return [{ label, points: pointsOf(time, curve) }];
    }),
  );
}

/** How many processes of a role there are, over all nodes, a line for each state that one of them was in. */
function stateLines(all: NamedSamples[], roles: string[]): ChartLine[] {
  const states = new Map<string, { time: number[]; curve: Curve }[]>();
  for (const { samples } of all) {
    for (const [name, curve] of Object.entries(samples.series)) {
      const [kind, role = "", state = ""] = name.split("/");
      if (kind !== "processes" || !roles.includes(role) || !hasNumbers(curve)) continue;
      states.set(state, [...(states.get(state) ?? []), { time: samples.time, curve }]);
    }
  }
  const lines = [...states].map(([state, curves]) => {
    const { time, curve } = combined(curves, false);
    return { label: state, points: pointsOf(time, curve) };
  });
  return lines.filter((line) => greatest(line) > 0).sort((a, b) => greatest(b) - greatest(a));
}

/** What data processes' operators did: names are "DATASET/NUMBER OPERATOR/WHAT" and "DATASET/WHAT". */
function dataLines(all: NamedSamples[], what: string): ChartLine[] {
  return highest(
    all.flatMap(({ name: process, samples }) =>
      Object.keys(samples.series)
        .filter((name) => name.endsWith(`/${what}`))
        .flatMap((name) => {
          const label = name.slice(0, -what.length - 1).replaceAll("/", ": ");
          return lineOf(samples, name, all.length > 1 ? `${label} (${process})` : label);
        }),
    ),
  );
}

/** All nodes of a run together. */
export function clusterCharts(nodes: NamedSamples[], data: NamedSamples[]): SampleChart[] {
  const charts: SampleChart[] = [
    { title: "CPU", unit: RATIO, lines: clusterLines(nodes, "cpu_ratio") },
    { title: "Memory used", unit: BYTES, lines: clusterLines(nodes, "memory_used_bytes") },
    { title: "GPU", unit: RATIO, lines: clusterLines(nodes, "utilization_ratio", "mean") },
    { title: "GPU memory used", unit: BYTES, lines: clusterLines(nodes, "memory_used_bytes", "sum") },
    { title: "Received", unit: BYTES_PER_SECOND, lines: clusterLines(nodes, "network_received_bytes_per_s") },
    { title: "Sent", unit: BYTES_PER_SECOND, lines: clusterLines(nodes, "network_sent_bytes_per_s") },
    { title: "Read from disks", unit: BYTES_PER_SECOND, lines: clusterLines(nodes, "disk_read_bytes_per_s") },
    { title: "Written to disks", unit: BYTES_PER_SECOND, lines: clusterLines(nodes, "disk_written_bytes_per_s") },
    { title: "Disk space free", unit: BYTES, lines: clusterLines(nodes, "disk_free_bytes") },
    { title: "Workers by state", unit: COUNT, lines: stateLines(nodes, ["worker", "program"]), isNamed: true },
    { title: "Agents by state", unit: COUNT, lines: stateLines(nodes, ["driver", "agent"]), isNamed: true },
    { title: "Data processes by state", unit: COUNT, lines: stateLines(nodes, ["data"]), isNamed: true },
    { title: "Validations by state", unit: COUNT, lines: stateLines(nodes, ["validation"]), isNamed: true },
    { title: "Rows of operators", unit: PER_SECOND, lines: dataLines(data, "rows_per_s") },
    { title: "Data tasks running", unit: COUNT, lines: dataLines(data, "tasks_running") },
    { title: "Blocks read ahead", unit: COUNT, lines: dataLines(data, "queue_blocks") },
    { title: "Bytes read ahead", unit: BYTES, lines: dataLines(data, "queue_bytes") },
  ];
  return charts.filter((chart) => chart.lines.length > 0);
}

/** Parts of the time that can be chosen, in seconds; 0: all. */
export const SPANS = [
  { key: "", title: "15 min", seconds: 900 },
  { key: "1h", title: "1 h", seconds: 3600 },
  { key: "6h", title: "6 h", seconds: 21600 },
  { key: "all", title: "All", seconds: 0 },
];

/** Which part to ask for: what was zoomed into, else the last so many seconds of what there is. */
export function partOf(
  parameters: { [name: string]: string },
  first: number,
  last: number,
): { from: number; to: number } {
  const zoomed = ["from", "to"].map((name) => Number(parameters[name] || NaN));
  const [from = NaN, to = NaN] = zoomed;
  if (Number.isFinite(from) && Number.isFinite(to) && from < to) return { from: Math.floor(from), to: Math.ceil(to) };
  const span = SPANS.find((one) => one.key === (parameters["span"] ?? ""))?.seconds ?? 0;
  const begin = span > 0 ? Math.max(first, last - span) : first;
  return { from: Math.floor(begin), to: Math.ceil(last) + 1 };
}
