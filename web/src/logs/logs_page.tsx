// The logs of a run: which there are, and one of them.
import { useEffect } from "preact/hooks";
import { fetchLogStreams } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { LogStream } from "../api/views.ts";
import { bytesText } from "../format/number.ts";
import { useRun } from "../run/live_run.ts";
import { Crumbs, runCrumbs } from "../shell/crumbs.tsx";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { type Parameters, logsHash } from "../shell/route.ts";
import { printable } from "../text/printable.ts";
import { LogPane } from "./log_pane.tsx";
import { hasSeveralAttempts, preferredStream, streamTitle } from "./streams.ts";

const LIST_PAUSE_MS = 5000; // new attempts have new workers

function StreamList({ id, streams, chosen }: { id: string; streams: LogStream[]; chosen: string }) {
  const tellsAttempt = hasSeveralAttempts(streams);
  return (
    <nav class="streams" aria-label="Logs">
      {streams.map((stream) => (
        <a
          key={stream.stream}
          href={logsHash(id, stream.stream)}
          aria-current={stream.stream === chosen ? "page" : undefined}
        >
          <span>{printable(streamTitle(stream, tellsAttempt))}</span>
          <span class="quiet number">{bytesText(stream.size)}</span>
        </a>
      ))}
    </nav>
  );
}

export interface LogsPageProps {
  id: string;
  stream: string;
  parameters: Parameters;
}

export function LogsPage({ id, stream, parameters }: LogsPageProps) {
  const run = useRun(id);
  const list = useResource(id, () => fetchLogStreams(id));
  const { reload } = list;
  const isLive = run.data?.live ?? false;
  useEffect(() => {
    if (!isLive) return;
    const timer = window.setInterval(reload, LIST_PAUSE_MS);
    return () => {
      window.clearInterval(timer);
      reload(); // what was written at the end
    };
  }, [isLive, reload]);
  const streams = list.data?.streams ?? [];
  const chosen = stream || preferredStream(streams);
  const name = printable(run.data?.name ?? id);
  useEffect(() => {
    document.title = `${chosen} of ${name} — Paceline`;
  }, [chosen, name]);
  const problem = list.problem ?? run.problem;

  return (
    <div class="page fills">
      <Crumbs above={runCrumbs(id, run.data?.name)} />
      <h1 class="for-screen-readers">Logs of {name}</h1>
      {problem && !problem.needsSession && <ProblemNotice problem={problem} onRetry={reload} />}
      {!list.data && !problem && <Loading />}
      {list.data && streams.length === 0 && (
        <Empty title="No log was written" command={`paceline logs ${run.data?.name ?? id}`}>
          A train loop that ran in its driver wrote where the driver did.
        </Empty>
      )}
      {streams.length > 0 && (
        <div class="logs">
          <StreamList id={id} streams={streams} chosen={chosen} />
          <LogPane id={id} stream={chosen} isLive={isLive} search={parameters["q"] ?? ""}>
            <code class="stream-name">{printable(chosen)}</code>
          </LogPane>
        </div>
      )}
    </div>
  );
}
