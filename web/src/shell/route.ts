// Which page an address means: what is behind its '#', so that no server has to rewrite paths, whatever prefix it has.
//
//   #/runs?state=failed&q=mnist&sort=-opened      #/runs/ID?tab=workers      #/runs/ID/logs/STREAM?q=error
//   #/runs/ID/profiles/NAME?rank=1&q=gemm   #/compare?runs=ID,ID&metric=loss
//   #/compare?runs=ID,ID&metric=loss              #/metrics?run=ID           #/nodes      #/runs/ID/nodes/NAME
//   #/runs/ID/workers/RANK                        #/data?q=train

export interface Parameters {
  [name: string]: string;
}

export type Route =
  | { page: "runs"; parameters: Parameters }
  | { page: "run"; id: string; parameters: Parameters }
  | { page: "logs"; id: string; stream: string; parameters: Parameters }
  | { page: "profile"; id: string; name: string; parameters: Parameters }
  | { page: "worker"; id: string; rank: number; parameters: Parameters }
  | { page: "data"; parameters: Parameters }
  | { page: "compare"; ids: string[]; parameters: Parameters }
  | { page: "metrics"; parameters: Parameters }
  | { page: "nodes"; parameters: Parameters }
  | { page: "node"; id: string; node: string; parameters: Parameters }
  | { page: "unknown"; parameters: Parameters };

/** As it was given where it is not encoded rightly: an address may be typed. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function parametersOf(text: string): Parameters {
  const parameters: Parameters = {};
  for (const pair of text.split("&")) {
    const equals = pair.indexOf("=");
    if (equals > 0) parameters[decoded(pair.slice(0, equals))] = decoded(pair.slice(equals + 1).replace(/\+/g, " "));
  }
  return parameters;
}

export function routeOf(hash: string): Route {
  const text = hash.replace(/^#/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  const parameters = mark < 0 ? {} : parametersOf(text.slice(mark + 1));
  const parts = path.split("/").filter((part) => part !== "");
  const [page, id = "", section, stream = ""] = parts;
  if (page === undefined || (page === "runs" && parts.length === 1)) return { page: "runs", parameters };
  if (page === "runs" && parts.length === 2) return { page: "run", id: decoded(id), parameters };
  if (page === "runs" && section === "logs" && parts.length <= 4) {
    return { page: "logs", id: decoded(id), stream: decoded(stream), parameters };
  }
  if (page === "runs" && section === "profiles" && parts.length === 4) {
    return { page: "profile", id: decoded(id), name: decoded(stream), parameters };
  }
  if (page === "runs" && section === "nodes" && parts.length === 4) {
    return { page: "node", id: decoded(id), node: decoded(stream), parameters };
  }
  if (page === "runs" && section === "workers" && parts.length === 4 && /^\d{1,9}$/.test(stream)) {
    return { page: "worker", id: decoded(id), rank: Number(stream), parameters };
  }
  if (page === "data" && parts.length === 1) return { page: "data", parameters };
  if (page === "metrics" && parts.length === 1) return { page: "metrics", parameters };
  if (page === "nodes" && parts.length === 1) return { page: "nodes", parameters };
  if (page === "compare" && parts.length === 1) {
    const { runs = "", ...rest } = parameters;
    // Ids are encoded once more within the list, so that a comma may be in one.
    return { page: "compare", ids: runs.split(",").filter(Boolean).map(decoded), parameters: rest };
  }
  return { page: "unknown", parameters };
}

function withParameters(path: string, parameters: Parameters): string {
  const set = Object.entries(parameters).filter(([, value]) => value !== "");
  if (set.length === 0) return path;
  return path + "?" + set.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&");
}

/** The address of a page, to put into href. */
export function hashOf(route: Route): string {
  switch (route.page) {
    case "run":
      return withParameters(`#/runs/${encodeURIComponent(route.id)}`, route.parameters);
    case "logs": {
      const stream = route.stream ? "/" + encodeURIComponent(route.stream) : "";
      return withParameters(`#/runs/${encodeURIComponent(route.id)}/logs${stream}`, route.parameters);
    }
    case "profile": {
      const path = `#/runs/${encodeURIComponent(route.id)}/profiles/${encodeURIComponent(route.name)}`;
      return withParameters(path, route.parameters);
    }
    case "compare":
      return withParameters("#/compare", {
        runs: route.ids.map(encodeURIComponent).join(","),
        ...route.parameters,
      });
    case "worker":
      return withParameters(`#/runs/${encodeURIComponent(route.id)}/workers/${route.rank}`, route.parameters);
    case "data":
      return withParameters("#/data", route.parameters);
    case "metrics":
      return withParameters("#/metrics", route.parameters);
    case "nodes":
      return withParameters("#/nodes", route.parameters);
    case "node": {
      const path = `#/runs/${encodeURIComponent(route.id)}/nodes/${encodeURIComponent(route.node)}`;
      return withParameters(path, route.parameters);
    }
    default:
      return withParameters("#/runs", route.parameters);
  }
}

export function runHash(id: string, parameters: Parameters = {}): string {
  return hashOf({ page: "run", id, parameters });
}

export function logsHash(id: string, stream = "", parameters: Parameters = {}): string {
  return hashOf({ page: "logs", id, stream, parameters });
}

export function profileHash(id: string, name: string, parameters: Parameters = {}): string {
  return hashOf({ page: "profile", id, name, parameters });
}

export function workerHash(id: string, rank: number, parameters: Parameters = {}): string {
  return hashOf({ page: "worker", id, rank, parameters });
}

export function nodeHash(id: string, node: string): string {
  return hashOf({ page: "node", id, node, parameters: {} });
}
