// The list of runs: a first page at once, the rest behind it, news as they come. It is filtered here, not by the
// server: ten thousand rows are some megabytes, and each key that is typed is answered in the next frame.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { fetchRuns } from "../api/api.ts";
import { type Problem, problemOfFailure } from "../api/problem.ts";
import { listen } from "../api/stream.ts";
import type { RunRow } from "../api/views.ts";
import { merged } from "./run_filter.ts";

const FIRST_ROWS = 200;
const ROWS_AT_ONCE = 10_000; // the most that the server gives
const MOST_ROWS = 50_000;

export interface RunListState {
  runs: RunRow[];
  problem: Problem | undefined;
  /** What is there is not all yet. */
  isLoading: boolean;
  reload: () => void;
}

export function useRunList(): RunListState {
  const [runs, setRuns] = useState<RunRow[]>([]);
  const [problem, setProblem] = useState<Problem | undefined>();
  const [isLoading, setLoading] = useState(true);
  const abort = useRef<AbortController | null>(null);

  const reload = useCallback(() => {
    abort.current?.abort();
    const { signal } = (abort.current = new AbortController());
    setLoading(true);
    const read = async () => {
      let all: RunRow[] = [];
      let cursor = "";
      do {
        const limit = all.length === 0 ? FIRST_ROWS : ROWS_AT_ONCE;
        const page = await fetchRuns({ limit, cursor }, signal);
        // A new array each time: a list that grew by pushing would not be drawn again.
        all = [...all, ...page.runs];
        cursor = page.next === cursor ? "" : page.next;
        const more = all;
        // While it is read again, what was there before stays until all is there.
        setRuns((before) => (cursor !== "" && before.length > more.length ? before : more));
      } while (cursor !== "" && all.length < MOST_ROWS);
      setProblem(undefined);
    };
    read()
      .catch((error: unknown) => {
        if (!signal.aborted) setProblem(problemOfFailure(error));
      })
      .finally(() => {
        if (!signal.aborted) setLoading(false);
      });
  }, []);

  useEffect(() => {
    reload();
    let known = new Set<string>();
    const stop = listen("runs", {
      onValue(value) {
        const ids = new Set(Object.keys(value));
        // It has the latest runs only: one that is not there any more is gone, or others have come.
        if ([...known].some((id) => !ids.has(id))) reload();
        known = ids;
        setRuns((before) => merged(before, Object.values(value) as RunRow[]));
      },
      onGap: reload,
    });
    return () => {
      stop();
      abort.current?.abort();
    };
  }, [reload]);
  return { runs, problem, isLoading, reload };
}
