// The ranks' last collectives: times and bandwidth by kind and size, and those that have not ended well.
import type { JSX } from "preact";
import { fetchCollectives } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { CollectiveOfRank, CollectivesOfKind, RunView } from "../api/views.ts";
import { byteRateText, bytesText, countText, percentText } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { runHash } from "../shell/route.ts";
import { printable } from "../text/printable.ts";

/** "all_reduce 12 (4 MiB of float32)". */
function Name({ one }: { one: CollectiveOfRank }) {
  return (
    <>
      <strong>{printable(one.collective)}</strong> {one.number}
      {one.of && ` of ${printable(one.of)}`}
      {one.bytes > 0 && ` (${bytesText(one.bytes)}${one.type ? ` of ${one.type}` : ""})`}
    </>
  );
}

function UnderWay({ one }: { one: CollectiveOfRank }) {
  return (
    <li>
      rank {one.rank} {one.ended ? "was" : "is"} in <Name one={one} /> for {durationText(one.seconds)}
      {one.step > 0 && `, since step ${one.step}`}
      {one.ended && ", when it ended"}
    </li>
  );
}

function Failed({ one }: { one: CollectiveOfRank }) {
  return (
    <li>
      <Name one={one} /> failed on rank {one.rank} after {durationText(one.seconds)}
      {one.step > 0 && `, in step ${one.step}`}
      {one.count > 1 && `; ${countText(one.count - 1)} more failed there`}
    </li>
  );
}

function OnlyCalled({ one }: { one: CollectiveOfRank }) {
  return (
    <li>
      rank {one.rank} {one.ended ? "had" : "has"} called {countText(one.count)} that nobody{" "}
      {one.ended ? "waited for" : "waits for yet"}, from <Name one={one} /> on
      {one.ended && ", when it ended"}
    </li>
  );
}

interface UnfinishedProps {
  title: string;
  all: CollectiveOfRank[];
  Item: (props: { one: CollectiveOfRank }) => JSX.Element;
}

function Unfinished({ title, all, Item }: UnfinishedProps) {
  if (all.length === 0) return null;
  return (
    <>
      <h2>{title}</h2>
      <ul class="under-way">
        {all.map((one) => (
          <Item key={`${one.rank} ${one.group} ${one.number}`} one={one} />
        ))}
      </ul>
    </>
  );
}

function Row({ kind }: { kind: CollectivesOfKind }) {
  const hasBytes = kind.bytes > 0;
  return (
    <tr>
      <td>{printable(kind.collective)}</td>
      <td class="number">{hasBytes ? bytesText(kind.up_to_bytes) : "–"}</td>
      <td class="number">{countText(kind.count)}</td>
      <td class="number">{hasBytes ? bytesText(kind.bytes) : "–"}</td>
      <td class="number">{durationText(kind.median_s)}</td>
      <td class="number">{durationText(kind.p99_s)}</td>
      <td class="number">{hasBytes ? byteRateText(kind.bytes_per_s) : "–"}</td>
      <td class="number">{percentText(kind.share)}</td>
    </tr>
  );
}

/** Those of one rank that have not ended well. */
export function CollectivesOfRank({ id, run, rank }: { id: string; run: RunView; rank: number }) {
  const { data, problem, isLoading, reload } = useResource(id, () => fetchCollectives(id));
  if (problem && !data) return <ProblemNotice problem={problem} onRetry={reload} />;
  if (!data) return <Loading />;
  const own = (all: CollectiveOfRank[]) => all.filter((one) => one.rank === rank);
  const [failed, underWay, onlyCalled] = [own(data.failed), own(data.under_way), own(data.only_called)];
  const isQuiet = failed.length + underWay.length + onlyCalled.length === 0;
  return (
    <>
      {problem && <ProblemNotice problem={problem} onRetry={reload} />}
      <ul class="under-way">
        {failed.map((one) => (
          <Failed key={`failed ${one.group} ${one.number}`} one={one} />
        ))}
        {underWay.map((one) => (
          <UnderWay key={`open ${one.group} ${one.number}`} one={one} />
        ))}
        {onlyCalled.map((one) => (
          <OnlyCalled key={`called ${one.group} ${one.number}`} one={one} />
        ))}
        {isQuiet && <li class="quiet">{data.ranks === 0 ? "No collectives are kept." : "It is in none, and none failed."}</li>}
      </ul>
      <div class="toolbar">
        {run.live && (
          <button type="button" disabled={isLoading} onClick={reload}>
            Ask the rank again
          </button>
        )}
        <a href={runHash(id, { tab: "collectives" })}>Those of all ranks</a>
      </div>
    </>
  );
}

export function CollectivesSection({ id, run }: { id: string; run: RunView }) {
  const { data, problem, isLoading, reload } = useResource(id, () => fetchCollectives(id));
  if (problem) return <ProblemNotice problem={problem} onRetry={reload} />;
  if (!data) return <Loading />;
  if (data.ranks === 0) {
    return (
      <Empty title="No collectives are kept" command={`paceline show ${run.name} --collectives`}>
        The workers have noted none, or none has ended yet. Those of NCCL, and of groups that a train loop makes itself,
        are not noted.
      </Empty>
    );
  }
  return (
    <>
      <div class="toolbar">
        <span>
          Attempt {data.attempt}, the last collectives of {data.ranks} of {data.world_size} ranks
        </span>
        {run.live && (
          <button type="button" disabled={isLoading} onClick={reload}>
            Ask the ranks again
          </button>
        )}
      </div>
      <Unfinished title="Failed" all={data.failed} Item={Failed} />
      <Unfinished title="Under way" all={data.under_way} Item={UnderWay} />
      <Unfinished title="Not waited for" all={data.only_called} Item={OnlyCalled} />
      <div class="scrolls" tabIndex={0} role="group" aria-label="Collectives">
        <table>
          <thead>
            <tr>
              <th>Collective</th>
              <th class="number">Up to</th>
              <th class="number">Count</th>
              <th class="number">Bytes</th>
              <th class="number">Median</th>
              <th class="number">99 %</th>
              <th class="number">Bandwidth</th>
              <th class="number">Share</th>
            </tr>
          </thead>
          <tbody>
            {data.kinds.map((kind) => (
              <Row key={`${kind.collective} ${kind.up_to_bytes}`} kind={kind} />
            ))}
          </tbody>
        </table>
      </div>
      <p class="quiet">
        Times are those of one rank and include waiting for slower ones. Shares may add up to more than 100 %.
      </p>
    </>
  );
}
