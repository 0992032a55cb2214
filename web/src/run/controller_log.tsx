// What the controller decided, and why.
import { fetchLogStreams } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { RunView } from "../api/views.ts";
import { LogView } from "../logs/log_view.tsx";
import { isController } from "../logs/streams.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { logsHash } from "../shell/route.ts";

export function ControllerLog({ id, run }: { id: string; run: RunView }) {
  const { data, problem, reload } = useResource(id, () => fetchLogStreams(id));
  if (problem) return <ProblemNotice problem={problem} onRetry={reload} />;
  if (!data) return <Loading />;
  const stream = data.streams.find(isController);
  if (!stream)
    return <Empty title="The controller has written nothing" command={`paceline logs ${run.name} --controller`} />;
  return (
    <div class="log-in-section">
      <p class="quiet">
        <a href={logsHash(id, stream.stream)}>On a page of its own</a>
      </p>
      <LogView id={id} stream={stream.stream} isLive={run.live} search="" />
    </div>
  );
}
