// What chooses the part of a profile that is shown, and what it is compared with: each choice stands in the address.
import { useMemo } from "preact/hooks";
import type { FlameGraph, KeptProfile } from "../api/views.ts";
import { percentText, ranksText } from "../format/number.ts";
import { Choices } from "../shell/choices.tsx";
import { Icon } from "../shell/icons.tsx";
import { setParameters } from "../shell/navigation.ts";
import { printable } from "../text/printable.ts";
import { ranksOf, samplesBy } from "./flame_tree.ts";
import { isOfInterpreter } from "./interpreter.ts";
import { canCompare } from "./profile_kinds.ts";
import { timeText } from "./profile_text.ts";
import type { ProfileView } from "./profile_view.ts";
import { RankOptions } from "../run/rank_options.tsx";

const ALL_RANKS = "all";

interface RankSelectProps {
  label: string;
  graph: FlameGraph;
  rank: number | undefined;
  /** Of the parameter in the address. */
  name: string;
}

export function RankSelect({ label, graph, rank, name }: RankSelectProps) {
  const ranks = ranksOf(graph);
  if (ranks.length < 2) return null;
  const onChange = (value: string) => setParameters({ [name]: value === ALL_RANKS ? "" : value, at: "" });
  return (
    <label>
      {label}{" "}
      <select value={rank ?? ALL_RANKS} onChange={(event) => onChange(event.currentTarget.value)}>
        <RankOptions ranks={ranks} all={ALL_RANKS} />
      </select>
    </label>
  );
}

export function LanguageChoice({ graph, view }: { graph: FlameGraph; view: ProfileView }) {
  const languages = samplesBy(graph, "language", { rank: view.rank });
  if (languages.length < 2) return null;
  return (
    <Choices
      label="Language"
      all={languages.map(([language]) => ({ key: language, title: printable(language) }))}
      chosen={view.language}
      onChoose={(language) => setParameters({ language, thread: "", at: "" })}
    />
  );
}

export function ThreadSelect({ graph, view }: { graph: FlameGraph; view: ProfileView }) {
  const threads = samplesBy(graph, "name", { rank: view.rank, language: view.language });
  const all = threads.reduce((sum, [, count]) => sum + count, 0);
  if (threads.length < 2 && view.thread === "") return null;
  const isThere = view.thread === "" || threads.some(([name]) => name === view.thread);
  return (
    <label>
      Threads{" "}
      <select value={view.thread} onChange={(event) => setParameters({ thread: event.currentTarget.value, at: "" })}>
        <option value="">all</option>
        {!isThere && <option value={view.thread}>{printable(view.thread)}</option>}
        {threads.map(([name, count]) => (
          <option key={name} value={name}>
            {printable(name || "without a name")} ({percentText(count / all)})
          </option>
        ))}
      </select>
    </label>
  );
}

/** Only where there are any. */
export function InterpreterChoice({ graph, view }: { graph: FlameGraph; view: ProfileView }) {
  const isThere = useMemo(() => graph.frames.some(isOfInterpreter), [graph]);
  if (!isThere || view.language === "Python") return null;
  const onChange = (isShown: boolean) => setParameters({ interpreter: isShown ? "shown" : "", at: "" });
  return (
    <label>
      <input
        type="checkbox"
        checked={view.interpreter}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />{" "}
      Interpreter's functions
    </label>
  );
}

interface ThanSelectProps {
  /** All of the run. */
  profiles: KeptProfile[];
  graph: FlameGraph;
  view: ProfileView;
}

export function ThanSelect({ profiles, graph, view }: ThanSelectProps) {
  const own = graph.profile.name;
  const others = profiles.filter((other) => other.name !== own && canCompare(graph.profile, other));
  const ranks = ranksOf(graph);
  const canCompareRanks = ranks.length > 1;
  const choose = (than: string) => {
    const rank = view.rank ?? ranks[0];
    const other = ranks.find((one) => one !== rank);
    const ofRanks = than === own ? { rank: String(rank), than_rank: String(other) } : { than_rank: "" };
    setParameters({ than, at: "", ...ofRanks }, { replace: false });
  };
  if (others.length === 0 && !canCompareRanks && view.than === "") return null;
  return (
    <label>
      Compare with{" "}
      <select
        value={view.than}
        onChange={(event) => choose(event.currentTarget.value)}
      >
        <option value="">none</option>
        {canCompareRanks && <option value={own}>another rank of this one</option>}
        {others.map((profile) => (
          <option key={profile.name} value={profile.name}>
            {printable(timeText(profile))}, {ranksText(profile.ranks)}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Search({ view, matched }: { view: ProfileView; matched: number | undefined }) {
  return (
    <>
      <label class="search">
        <Icon name="search" />
        <span class="for-screen-readers">Search functions</span>
        <input
          type="search"
          data-filter
          placeholder="Search functions"
          value={view.search}
          spellcheck={false}
          onInput={(event) => setParameters({ q: event.currentTarget.value })}
        />
        <kbd aria-hidden="true">/</kbd>
      </label>
      {matched !== undefined && (
        <span role="status" class="number">
          in {percentText(matched)} of the samples
        </span>
      )}
    </>
  );
}
