// The server's interface, /api/v1. Addresses are relative, so that the pages work under any prefix of a reverse proxy.
import { Problem, problemOf, problemOfFailure } from "./problem.ts";
import type { Collectives, Hang, HangEvidence, LogRange, LogStream, MetricsJson } from "./views.ts";
import type { FlameGraph, KeptProfile } from "./views.ts";
import type { DataOfRun, DatasetSummary, NodeSummary, NodesOfRun, SamplesJson, StepTimes } from "./views.ts";
import type { RunConfiguration, RunEvent, RunList, RunView, SessionInfo, VerifiedCheckpoint, WorkerStacks } from "./views.ts";
import { session } from "./session.ts";

const BASE = "api/v1/";
/** Forms of other sites cannot set a header: the server refuses what would change something without it. */
const FROM_OUR_PAGES = { "X-Paceline": "1" };

async function request<T>(path: string, init?: RequestInit): Promise<T> {
  try {
    const response = await fetch(BASE + path, init);
    if (!response.ok) throw await problemOf(response);
    return (await response.json()) as T;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    const problem = problemOfFailure(error);
    if (problem.needsSession) session.need();
    throw problem;
  }
}

function post<T>(path: string, body: unknown): Promise<T> {
  const headers = { ...FROM_OUR_PAGES, "Content-Type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body) });
}

/** "?a=1&b=2" of those that are set. */
export function query(parameters: { [name: string]: string | number | undefined }): string {
  const set = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
  if (set.length === 0) return "";
  return "?" + set.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&");
}

function runPath(id: string, rest = ""): string {
  return `runs/${encodeURIComponent(id)}${rest}`;
}

/** Exchanges the code that `paceline dashboard` has printed for a cookie. */
export async function openSession(code: string): Promise<void> {
  const headers = { ...FROM_OUR_PAGES, "Content-Type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify({ code }) };
  const response = await fetch(BASE + "session", init).catch((error: unknown) => {
    throw problemOfFailure(error);
  });
  if (!response.ok) throw await problemOf(response);
}

/** Notes what the server says of itself, or that it wants a session. */
export async function fetchSession(): Promise<void> {
  session.take(await request<SessionInfo>("session"));
}

export interface RunsQuery {
  limit?: number;
  cursor?: string;
}

export function fetchRuns({ limit, cursor }: RunsQuery, signal?: AbortSignal): Promise<RunList> {
  return request("runs" + query({ limit, cursor }), signal ? { signal } : undefined);
}

export function fetchRun(id: string): Promise<RunView> {
  return request(runPath(id));
}

export interface MetricsQuery {
  /** Empty: the server gives names only. */
  names: string[];
  points: number;
  /** The first and the last report. */
  from?: number | undefined;
  to?: number | undefined;
}

export function fetchMetrics(id: string, { names, points, from, to }: MetricsQuery): Promise<MetricsJson> {
  const list = names.filter((name) => !name.includes("\0")).join(","); // no address has a NUL
  return request(runPath(id, "/metrics") + query({ names: list, points, from, to }));
}

/** The nodes of all runs that go on. */
export async function fetchAllNodes(): Promise<NodesOfRun[]> {
  return (await request<{ runs: NodesOfRun[] }>("nodes")).runs;
}

export function fetchNodes(id: string): Promise<{ nodes: NodeSummary[]; data_processes: string[] }> {
  return request(runPath(id, "/nodes"));
}

export interface SamplesQuery {
  /** Its name; or the number of a data process. */
  node?: string;
  data?: string;
  /** One that ends with '/' means all that begin with it. */
  names?: string[];
  points: number;
  /** Seconds since the Unix epoch. */
  from?: number | undefined;
  to?: number | undefined;
}

export function fetchSamples(id: string, { node, data, names, points, from, to }: SamplesQuery): Promise<SamplesJson> {
  const list = names?.join(",");
  return request(runPath(id, "/samples") + query({ node, data, names: list, points, from, to }));
}

export function fetchStepTimes(
  id: string,
  part: { points: number; from?: number | undefined; to?: number | undefined },
): Promise<StepTimes> {
  return request(runPath(id, "/step_times") + query({ ...part }));
}

/** The datasets of the last runs that read some. */
export async function fetchAllData(): Promise<DataOfRun[]> {
  return (await request<{ runs: DataOfRun[] }>("data")).runs;
}

export async function fetchData(id: string): Promise<DatasetSummary[]> {
  return (await request<{ datasets: DatasetSummary[] }>(runPath(id, "/data"))).datasets;
}

export function fetchLogStreams(id: string): Promise<{ streams: LogStream[] }> {
  return request(runPath(id, "/logs"));
}

export interface LogQuery {
  /** The first byte; a negative one counts from the end. */
  offset?: number;
  /** Instead: the last lines before this byte. */
  before?: number;
  limit: number;
  grep?: string | undefined;
}

export function fetchLog(id: string, stream: string, part: LogQuery): Promise<LogRange> {
  return request(runPath(id, `/logs/${encodeURIComponent(stream)}`) + query({ ...part }));
}

export async function fetchEvents(id: string): Promise<RunEvent[]> {
  return (await request<{ events: RunEvent[] }>(runPath(id, "/events"))).events;
}

export function fetchConfiguration(id: string): Promise<RunConfiguration> {
  return request(runPath(id, "/configuration"));
}

export function fetchCollectives(id: string): Promise<Collectives> {
  return request(runPath(id, "/collectives"));
}

export async function fetchHangs(id: string): Promise<Hang[]> {
  return (await request<{ hangs: Hang[] }>(runPath(id, "/hangs"))).hangs;
}

export function fetchHang(id: string, name: string): Promise<HangEvidence> {
  return request(runPath(id, `/hangs/${encodeURIComponent(name)}`));
}

/** Asks the train loops of a live run to save a checkpoint. */
export function askForCheckpoint(id: string): Promise<unknown> {
  return post(runPath(id, "/actions"), { action: "checkpoint_now" });
}

/** Asks a live run to stop; its checkpoints stay. */
export function stopRun(id: string): Promise<unknown> {
  return post(runPath(id, "/actions"), { action: "stop" });
}

/** What every thread of a live run's workers is doing; of one rank, or with −1 of all. */
export async function takeStacks(id: string, rank: number): Promise<WorkerStacks[]> {
  const answer = await post<{ workers: WorkerStacks[] }>(runPath(id, "/actions"), { action: "stacks", rank });
  return answer.workers;
}

export async function fetchProfiles(id: string): Promise<KeptProfile[]> {
  return (await request<{ profiles: KeptProfile[] }>(runPath(id, "/profiles"))).profiles;
}

export function fetchProfile(id: string, name: string): Promise<FlameGraph> {
  return request(runPath(id, `/profiles/${encodeURIComponent(name)}`));
}

/** Where the profile is in speedscope's format, from the pages' folder. */
export function speedscopePath(id: string, name: string): string {
  return BASE + runPath(id, `/profiles/${encodeURIComponent(name)}?format=speedscope`);
}

/** Of one rank, as the browser saves it. */
export function timelinePath(id: string, name: string, rank: number): string {
  return BASE + runPath(id, `/profiles/${encodeURIComponent(name)}/timeline?rank=${rank}`);
}

export interface ProfileRequest {
  kind: string;
  /** −1: all ranks. */
  rank: number;
  seconds: number;
  /** The profile ends after so many steps, or after the seconds if those are over first; 0: after the seconds. */
  steps: number;
}

/** Profiles workers of a live run, and answers when that is done; the run keeps what was taken. */
export async function takeProfile(id: string, wanted: ProfileRequest): Promise<KeptProfile> {
  const action = { action: "profile", ...wanted };
  return (await post<{ profile: KeptProfile }>(runPath(id, "/actions"), action)).profile;
}

/** Reads all of a checkpoint and compares it with its manifest, until the signal says that nobody waits any more. */
export function verifyCheckpoint(id: string, folder: string, signal: AbortSignal): Promise<VerifiedCheckpoint> {
  return request(runPath(id, `/checkpoints/${encodeURIComponent(folder)}/verification`), { signal });
}

export { Problem };
