// What the pages read of the server's answers, which are the views of the command line's `--json`
// (docs/command_line.md): a test compares them with docs/openapi.json.
//
// Times are seconds since the Unix epoch. Later versions may add members; those that not every version has are
// optional.

/** A number that JSON cannot hold comes as a string in series, and as {"$number": …} in metrics. */
export type JsonNumber = number | "NaN" | "Infinity" | "-Infinity" | null;

/** Metrics of a report. Users nest them; a nested name is shown joined by '/'. */
export type Metrics = { [name: string]: unknown };

/** Whether the driver of a run that is not over still lives; null when the run is over. */
export type Driver = "alive" | "gone" | "elsewhere" | null;

/** Who is asked, and whether it does what changes runs. */
export interface SessionInfo {
  version: string;
  host: string;
  user: string;
  read_only: boolean;
  /** Only runs in these; empty: all. */
  storage_paths: string[];
}

/** A line of `paceline list --json`. */
export interface RunRow {
  /** Names a run in the server's paths: the same while its folder stays where it is. */
  id: string;
  name: string;
  path: string;
  location: string;
  state: string;
  driver: Driver;
  gone: boolean;
  since: number;
  created: number;
  opened: number;
  host: string;
  pid: number;
  attempt: number;
  world_size: number;
  report: number;
  metrics: Metrics;
  /** How often it hung. */
  hangs?: number;
  error: string;
}

export interface RunList {
  runs: RunRow[];
  /** The cursor of what follows; "" at the end. */
  next: string;
}

export interface Attempt {
  attempt: number;
  world_size: number;
  start: number;
  /** null: it goes on, or its driver died and nobody knows. */
  end: number | null;
  failure: string;
}

/** A worker of the last attempt; only a live run's controller knows what is optional. */
export interface Worker {
  worker: number;
  rank: number | null;
  attempt?: number;
  local_rank?: number;
  node: string;
  pid: number;
  stage: string;
  last_stage?: string;
  step?: number;
  phase?: string;
  phase_s?: number;
  step_s?: number;
  /** Its steps take so many times as long as the others'. */
  slow?: number;
  started?: number;
  cpu_s?: number;
  resident_bytes?: number;
}

/** What comparing all files of a checkpoint with its manifest has found. */
export interface VerifiedCheckpoint {
  name: string;
  is_whole: boolean;
  /** Which file differs from the manifest; "" where it is whole. */
  problem: string;
  bytes: number;
  files: number;
  tensors: number;
}

export type CheckpointStatus =
  "committed" | "pending_validation" | "validated" | "validation_timeout" | "validation_failed";

export interface Checkpoint {
  report: number;
  /** Of its folder; "" for checkpoint_N. */
  name: string;
  metrics: Metrics;
  time: number;
  status: CheckpointStatus;
}

export interface DatasetStep {
  name: string;
  num_task_outputs_generated: number;
  rows_task_outputs_generated: number;
  bytes_task_outputs_generated: number;
  num_tasks_running: number;
  task_running_time_max: number;
  block_generation_time: number;
  block_generation_time_p50: number;
  block_generation_time_p95: number;
  task_submission_backpressure_time: number;
}

export interface DatasetRank {
  rank: number;
  batches: number;
  rows: number;
  bytes: number;
  waited_s: number;
  open_s: number;
}

export interface Dataset {
  name: string;
  steps: DatasetStep[];
  ranks: DatasetRank[];
}

/** One operator of a dataset; null where nobody has measured. */
export interface OperatorSummary {
  name: string;
  state: "running" | "idle" | "stuck" | "blocked" | "ended";
  rows_per_s: number | null;
  bytes_per_s: number | null;
  busy_threads: number | null;
  /** Since the data process began. */
  figures: DatasetStep;
}

export interface ReadAhead {
  num_external_outqueue_blocks: number;
  num_external_outqueue_bytes: number;
  windows_read: number;
  windows_taken: number;
  task_output_backpressure_time: number;
  input_wait_time: number;
}

/** A dataset as one data process reads it: rates of the last seconds, or, when the run is over, of all the time. */
export interface DatasetSummary {
  name: string;
  host: string;
  process: number;
  time: number;
  state: "running" | "idle" | "ended";
  /** Each takes what the one before gives. */
  operators: OperatorSummary[];
  read_ahead: ReadAhead;
  ranks: DatasetRank[];
  waited_share: number;
  most_waited_share: number;
  /** Name of an operator; "": data is not the limit. */
  bottleneck: string;
  verdict: string;
}

export interface DataOfRun {
  id: string;
  name: string;
  state: string;
  driver: Driver;
  since: number;
  datasets: DatasetSummary[];
}

/** How long steps took: a list for each rank, as long as `time`. */
export interface StepTimes {
  first: number;
  last: number;
  seconds: number;
  time: number[];
  ranks: number[];
  step_s: (number | null)[][];
}

/** Seconds that all ranks together have spent. */
export interface Goodput {
  compute_s: number;
  data_s: number;
  collectives_s: number;
  checkpoint_s: number;
  starting_s: number;
  restart_s: number;
  other_s: number;
  /** Of computing; 0 where nothing is known. */
  share: number;
}

/** What `paceline show RUN --json` tells. */
export interface RunView {
  id: string;
  name: string;
  path: string;
  location: string;
  state: string;
  live: boolean;
  gone: boolean;
  remark: string;
  since: number;
  created: number;
  host: string;
  pid: number;
  attempts: Attempt[];
  checkpoints: Checkpoint[];
  report: number;
  metrics: Metrics;
  workers: Worker[];
  goodput: Goodput;
  datasets: Dataset[];
  /** When it hung: names of hangs. */
  hangs?: string[];
  waits_for: string[];
  error: string;
}

/** What a run was opened with. */
export interface RunConfiguration {
  opened: number;
  /** Empty where nobody knows. */
  options: { [name: string]: unknown };
  train_loop_config: { [name: string]: unknown };
}

/** Values of one metric, reduced to as many points as were asked for. */
export interface SeriesJson {
  report: number[];
  time: JsonNumber[];
  min: JsonNumber[];
  max: JsonNumber[];
  last: JsonNumber[];
}

export interface MetricsJson {
  /** All metrics of the run, whichever were asked for. */
  names: string[];
  series: { [name: string]: SeriesJson };
}

export interface LogStream {
  /** "controller", "worker_7", "data_1"; "worker_7.1" is the piece before it of a log that grew large. */
  stream: string;
  kind: string;
  worker: number | null;
  /** null: the controller's, a dataset's, or of a worker that never had a rank. */
  rank: number | null;
  attempt: number | null;
  size: number;
  modified: number;
}

/** Whole lines, from `offset` up to `next`, in bytes; with grep= only those lines of them that match. */
export interface LogRange {
  text: string;
  offset: number;
  next: number;
  size: number;
}

export interface RunEvent {
  sequence: number;
  time: number;
  event: string;
  details: { [name: string]: unknown };
}

export interface CollectivesOfKind {
  collective: string;
  up_to_bytes: number;
  count: number;
  bytes: number;
  median_s: number;
  p99_s: number;
  bytes_per_s: number;
  share: number;
}

/** One that has not ended well, or the first of several on a rank. */
export interface CollectiveOfRank {
  rank: number;
  /** Its worker has. */
  ended: boolean;
  count: number;
  collective: string;
  number: number;
  group: number;
  /** "ranks 0, 2", "group 2" of all ranks; "" for their first. */
  of: string;
  type: string;
  bytes: number;
  step: number;
  since: number;
  /** Until it failed, else until the records were taken. */
  seconds: number;
}

export interface Collectives {
  folder: string;
  attempt: number;
  ranks: number;
  world_size: number;
  kinds: CollectivesOfKind[];
  /** Each one. */
  under_way: CollectiveOfRank[];
  /** Those that nobody waits for, the first of each rank. */
  only_called: CollectiveOfRank[];
  /** The first of each rank. */
  failed: CollectiveOfRank[];
}

export interface StackFrame {
  function: string;
  file: string;
  line: number;
  module: string;
  inlined: boolean;
}

export interface ThreadStack {
  tid: number;
  name: string;
  state: string;
  frames: StackFrame[];
  problem: string;
}

/** How a rank stood when the run hung. */
export interface HangRank {
  rank: number;
  finished: boolean;
  standing: string;
  progress: {
    step: number;
    phase: string;
    idle_s: number;
    longest_pause_s: number;
    groups: { group: number; begun: number; done: number; collective: string }[];
  };
}

export interface Hang {
  /** When, as the name of its folder. */
  name: string;
  /** 0: not known. */
  attempt: number;
  text: string;
  suspects: number[];
  witness: number;
  certain: boolean;
  deadlock: boolean;
  ranks: HangRank[];
}

export interface HangEvidence {
  hang: Hang;
  workers: WorkerStacks[];
  /** As text, where there are no `workers`. */
  stacks: string;
}

/** A line of `paceline stacks RUN --json`. */
export interface WorkerStacks {
  worker: number;
  rank: number;
  node: string;
  stacks: {
    pid: number;
    threads: ThreadStack[];
    longest_pause_s: number;
    python: string;
    python_problem: string;
    problem: string;
  };
}

/** A profile that the run keeps. */
export interface KeptProfile {
  /** Of its folder; "": it could not be kept. */
  name: string;
  /** A name of profiles/profile_kinds.ts, or of a later version. */
  kind: string;
  time: number;
  /** Who asked for it; "": that was not kept. */
  who: string;
  /** That was asked for; −1: all. */
  rank: number;
  seconds: number;
  ranks: number[];
  /** How many, by language; of memory bytes. */
  samples: { [language: string]: number };
  problems: string[];
}

/** A function, whichever of its lines was seen. */
export interface FlameFrame {
  /** "" where no symbol is known. */
  function: string;
  file: string;
  /** 0: not known. */
  line: number;
  module: string;
}

export interface FlameProcess {
  worker: number;
  /** −1: a worker without a rank. */
  rank: number;
  node: string;
  pid: number;
  /** A sample stands for 1/rate seconds. */
  rate: number;
  seconds: number;
  dropped: number;
  /** Empty: it was not sampled. */
  ways: string[];
  problems: string[];
}

/** counts[i] samples of the thread ended at nodes[i]. */
export interface FlameThread {
  /** Position in `processes`. */
  process: number;
  tid: number;
  name: string;
  language: string;
  /** It did nothing but wait, as the threads of a pool without work; never the main thread. */
  is_idle: boolean;
  nodes: number[];
  counts: number[];
}

/** All stacks of a profile as one tree: node i is frames[frame[i]], called by node parent[i], which is smaller; −1: by nobody. */
export interface FlameGraph {
  profile: KeptProfile;
  frames: FlameFrame[];
  parent: number[];
  frame: number[];
  processes: FlameProcess[];
  threads: FlameThread[];
}

/** Numbers of a GPU; null where it does not tell them. */
export interface GpuSample {
  uuid: string;
  index: number;
  name: string;
  utilization_ratio: number | null;
  memory_used_bytes: number | null;
  memory_total_bytes: number | null;
  power_watts: number | null;
  temperature_celsius: number | null;
  throttled: number | null;
  ecc_errors_total: number | null;
}

/** A process of the run on a node, with all that it has started. */
export interface ProcessSample {
  /** Its id; 0: the driver or the agent itself. */
  worker: number;
  role: string;
  pid: number;
  cpu_cores: number | null;
  rss_bytes: number | null;
  threads: number | null;
  descriptors: number | null;
  read_bytes_per_s: number | null;
  written_bytes_per_s: number | null;
  gpu_memory_bytes: number | null;
  cpu_seconds_total: number | null;
  /** Average of a worker's last steps, without waiting in collectives. */
  step_s: number | null;
}

/** What a node did in one second. */
export interface NodeSample {
  time: number;
  cpu_ratio: number | null;
  cores: number | null;
  load_1m: number | null;
  memory_used_bytes: number | null;
  memory_total_bytes: number | null;
  swap_used_bytes: number | null;
  swap_total_bytes: number | null;
  group_memory_used_bytes: number | null;
  group_memory_limit_bytes: number | null;
  disk_free_bytes: number | null;
  disk_size_bytes: number | null;
  disk_read_bytes_per_s: number | null;
  disk_written_bytes_per_s: number | null;
  network_sent_bytes_per_s: number | null;
  network_received_bytes_per_s: number | null;
  no_gpus_because: string;
  gpus: GpuSample[];
  processes: ProcessSample[];
}

export interface NodeSummary {
  name: string;
  state: "live" | "silent" | "ended";
  /** When the first sample that is kept was taken. */
  first: number;
  /** Of workers, by their ids. */
  ranks: { [worker: string]: number };
  sample: NodeSample;
}

export interface NodesOfRun {
  id: string;
  name: string;
  nodes: NodeSummary[];
}

/** Numbers of a node or a data process over time; lists as long as `time`. */
export interface SamplesJson {
  first: number;
  last: number;
  seconds: number;
  time: number[];
  series: { [name: string]: { mean: (number | null)[]; min: (number | null)[]; max: (number | null)[] } };
  names: string[];
  about: { gpus?: { [uuid: string]: { index?: number } }; processes?: { [id: string]: { role?: string } } };
}
