// useLog: reads a log by ranges. Without a search: its end first, earlier parts when they are asked for, what is added
// as it comes. With one: the lines that match, from the beginning on.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type LogQuery, fetchLog } from "../api/api.ts";
import { type Problem, problemOfFailure } from "../api/problem.ts";
import type { LogRange } from "../api/views.ts";
import { type LogText, appended, emptyLog, prepended } from "./log_text.ts";

const RANGE_BYTES = 256 * 1024;
const SEARCH_BYTES = 1024 * 1024; // of lines that match: the most that the server gives
const MOST_MATCHES = 10_000;
const POLL_MS = 2000;

export interface LogSource {
  id: string;
  stream: string;
  search: string;
  /** More may come. */
  isLive: boolean;
}

export interface ReadLog {
  log: LogText | undefined;
  problem: Problem | undefined;
  isReading: boolean;
  /** The search ended before the log: there were too many lines. */
  isCut: boolean;
  readEarlier: () => void;
}

export function useLog({ id, stream, search, isLive }: LogSource): ReadLog {
  const [log, setLog] = useState<LogText | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const [isReading, setReading] = useState(false);
  const [isCut, setCut] = useState(false);
  const current = useRef<LogText | undefined>(undefined);
  const isBusy = useRef(false);
  const generation = useRef(0);

  const fetchRange = useCallback(
    (part: Omit<LogQuery, "grep">) => fetchLog(id, stream, { ...part, grep: search || undefined }),
    [id, stream, search],
  );

  /** One reading at a time; what belongs to another log or search by then is dropped. */
  const run = useCallback(async (read: (take: (next: LogText) => void) => Promise<void>) => {
    if (isBusy.current) return;
    isBusy.current = true;
    setReading(true);
    const mine = generation.current;
    try {
      await read((next) => {
        if (mine !== generation.current) throw new DOMException("another log", "AbortError");
        current.current = next;
        setLog(next);
      });
      if (mine === generation.current) setProblem(undefined);
    } catch (error) {
      if (mine === generation.current) setProblem(problemOfFailure(error));
    } finally {
      if (mine === generation.current) {
        isBusy.current = false;
        setReading(false);
      }
    }
  }, []);

  const readOn = useCallback(
    () =>
      run(async (take) => {
        let range: LogRange;
        do {
          const log = current.current ?? emptyLog(0, 0);
          if (search && log.lines.length >= MOST_MATCHES) return setCut(true);
          range = await fetchRange({ offset: log.end, limit: search ? SEARCH_BYTES : RANGE_BYTES });
          take(appended(log, range));
          if (range.next <= log.end) return; // a server that gives nothing would be asked for ever
        } while (range.next < range.size);
      }),
    [run, fetchRange, search],
  );

  const readEarlier = useCallback(() => {
    const first = current.current?.start ?? 0;
    if (first === 0 || search) return;
    void run(async (take) => {
      const range = await fetchRange({ before: first, limit: RANGE_BYTES });
      if (current.current) take(prepended(current.current, range));
    });
  }, [run, fetchRange, search]);

  useEffect(() => {
    generation.current++;
    isBusy.current = false;
    current.current = undefined;
    setLog(undefined);
    setCut(false);
    const begin = async () => {
      if (!search) {
        await run(async (take) => {
          const range = await fetchRange({ offset: -RANGE_BYTES, limit: RANGE_BYTES });
          take(appended(emptyLog(range.offset, range.size), range));
        });
      }
      await readOn();
    };
    void begin();
    return () => void generation.current++;
  }, [run, fetchRange, readOn, search]);

  useEffect(() => {
    if (!isLive) return;
    const timer = window.setInterval(() => void readOn(), POLL_MS);
    return () => {
      window.clearInterval(timer);
      void readOn(); // what was written at the end
    };
  }, [isLive, readOn]);

  return { log, problem, isReading, isCut, readEarlier };
}
