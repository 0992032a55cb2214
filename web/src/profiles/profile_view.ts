// What a profile's page shows, as its address says it: which ranks and threads, the search, the zoom, and what it is
// compared with. Pure.
import type { FlameGraph } from "../api/views.ts";
import type { Parameters } from "../shell/route.ts";
import { type FlameTree, type Selection, mergedTree, ranksOf, samplesBy } from "./flame_tree.ts";
import { withoutInterpreter } from "./interpreter.ts";

export interface ProfileView {
  rank: number | undefined;
  /** "": all. */
  thread: string;
  language: string;
  /** Whether each function of Python's interpreter is shown. */
  interpreter: boolean;
  search: string;
  /** −1: all. */
  zoom: number;
  /** The name of the profile that is the "before"; "": none. It may be the same one, with another rank. */
  than: string;
  thanRank: number | undefined;
}

function numberIn(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}

/** A language that the profile lacks is not taken; where there is Python, users have written that. */
export function viewOf(parameters: Parameters, graph: FlameGraph): ProfileView {
  const languages = samplesBy(graph, "language", {}).map(([language]) => language);
  const wanted = parameters["language"] ?? "";
  const usual = languages.includes("Python") ? "Python" : (languages[0] ?? "");
  const rank = numberIn(parameters["rank"]);
  return {
    rank: rank !== undefined && ranksOf(graph).includes(rank) ? rank : undefined,
    thread: parameters["thread"] ?? "",
    language: languages.includes(wanted) ? wanted : usual,
    interpreter: parameters["interpreter"] === "shown",
    search: parameters["q"] ?? "",
    zoom: numberIn(parameters["at"]) ?? -1,
    than: parameters["than"] ?? "",
    thanRank: numberIn(parameters["than_rank"]),
  };
}

function selectionOf(view: ProfileView, rank: number | undefined): Selection {
  return { rank, language: view.language || undefined, thread: view.thread || undefined };
}

/** What the view shows of a profile: without idle threads, unless one is chosen. */
export function treeOf(graph: FlameGraph, view: ProfileView, rank: number | undefined): FlameTree {
  const busy = view.thread === "" ? { ...graph, threads: graph.threads.filter((one) => !one.is_idle) } : graph;
  const tree = mergedTree(busy, selectionOf(view, rank));
  return view.interpreter ? tree : withoutInterpreter(tree);
}
