// useResource: what a request gives, for a component. What is there stays while it is read again, also when that fails.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type Problem, problemOfFailure } from "./problem.ts";

export interface Resource<T> {
  data: T | undefined;
  problem: Problem | undefined;
  isLoading: boolean;
  /** Reads it again. */
  reload(): void;
  /** Takes over what is known by other means. */
  put(data: T): void;
}

/** `key` says what is loaded: a change of it loads anew. null: nothing yet. */
export function useResource<T>(key: string | null, load: () => Promise<T>): Resource<T> {
  const [data, setData] = useState<{ key: string | null; value: T } | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const [isLoading, setLoading] = useState(key !== null);
  const latest = useRef(0);
  const loader = useRef(load);
  loader.current = load;

  const reload = useCallback(() => {
    if (key === null) return;
    const number = ++latest.current;
    setLoading(true);
    loader
      .current()
      .then((value) => {
        if (number !== latest.current) return;
        setData({ key, value });
        setProblem(undefined);
      })
      .catch((error: unknown) => {
        if (number === latest.current) setProblem(problemOfFailure(error));
      })
      .finally(() => {
        if (number === latest.current) setLoading(false);
      });
  }, [key]);

  useEffect(() => {
    setProblem(undefined);
    reload();
    return () => {
      latest.current++; // what is under way is of no interest any more
    };
  }, [reload]);

  const put = useCallback((value: T) => setData({ key, value }), [key]);
  return { data: data?.value, problem, isLoading, reload, put };
}
