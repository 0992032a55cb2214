// One log with its tools: a search through all of it, its download, its lines.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { percentText } from "../format/number.ts";
import { Icon } from "../shell/icons.tsx";
import { setParameters } from "../shell/navigation.ts";
import { downloadLog } from "./download.ts";
import { LogView } from "./log_view.tsx";

const SEARCH_PAUSE_MS = 250; // the server reads whole logs: not for each key

function Download({ id, stream }: { id: string; stream: string }) {
  const [share, setShare] = useState<number | null>(null);
  const start = () => {
    setShare(0);
    void downloadLog(id, stream, setShare).finally(() => setShare(null));
  };
  return (
    <button type="button" disabled={share !== null} onClick={start}>
      <Icon name="down" /> {share === null ? "Download" : percentText(share)}
    </button>
  );
}

/** What was typed, once nothing more is typed for a moment. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(text), SEARCH_PAUSE_MS);
    return () => window.clearTimeout(timer);
  }, [text]);
  return settled;
}

export interface LogPaneProps {
  id: string;
  stream: string;
  isLive: boolean;
  /** Stands in the address, as `q`. */
  search: string;
  /** Between the search and the download. */
  children: ComponentChildren;
}

export function LogPane({ id, stream, isLive, search, children }: LogPaneProps) {
  const settled = useSettled(search);
  return (
    <div class="log-pane">
      <div class="toolbar">
        <label class="search">
          <Icon name="search" />
          <span class="for-screen-readers">Search in the log</span>
          <input
            type="search"
            data-filter
            placeholder="Search in the whole log"
            value={search}
            spellcheck={false}
            onInput={(event) => setParameters({ q: event.currentTarget.value })}
          />
          <kbd aria-hidden="true">/</kbd>
        </label>
        {children}
        <span class="fill" />
        <Download id={id} stream={stream} />
      </div>
      <LogView key={stream} id={id} stream={stream} isLive={isLive} search={settled} />
    </div>
  );
}
