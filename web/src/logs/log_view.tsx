// A log as one sees it: its end first, following it while the run lives, or the lines that match a search.
import { useCallback } from "preact/hooks";
import { bytesText, plural } from "../format/number.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { VirtualRows } from "../table/virtual_rows.tsx";
import { AnsiLine } from "../text/ansi_line.tsx";
import { useLog } from "./log_reader.ts";

const LINE_HEIGHT = 18; // .log-line in style/logs.css
const MOST_CHARACTERS = 10_000; // of a line: nobody reads a line of megabytes, and browsers lay it out for seconds

function shortened(line: string): string {
  if (line.length <= MOST_CHARACTERS) return line;
  return `${line.slice(0, MOST_CHARACTERS)}… and ${plural(line.length - MOST_CHARACTERS, "character")} more`;
}

export interface LogViewProps {
  id: string;
  stream: string;
  isLive: boolean;
  search: string;
}

export function LogView({ id, stream, isLive, search }: LogViewProps) {
  const { log, problem, isReading, isCut, readEarlier } = useLog({ id, stream, search, isLive });
  const lines = log?.lines ?? [];
  const row = useCallback(
    (index: number) => (
      <div key={index} class="log-line">
        <AnsiLine line={shortened(lines[index] ?? "")} search={search} />
      </div>
    ),
    [lines, search],
  );
  if (problem && !log) return <ProblemNotice problem={problem} />;
  if (!log) return <Loading />;
  const before = search ? 0 : log.start;
  return (
    <div class="log-view">
      {problem && <ProblemNotice problem={problem} />}
      {lines.length === 0 && !isReading && (
        <Empty title={search ? "No line has these words" : "Nothing was written"}>
          {!search && isLive && "What is written appears here."}
        </Empty>
      )}
      {lines.length > 0 && (
        <VirtualRows
          key={`${stream} ${search}`}
          class="log-lines"
          label={`Log ${stream}`}
          count={lines.length}
          rowHeight={LINE_HEIGHT}
          row={row}
          follows={!search}
          onStart={readEarlier}
        />
      )}
      <p class="log-foot quiet number" role="status">
        {search ? plural(lines.length, "matching line") : plural(lines.length, "line")}
        {before > 0 && (
          <>
            , {bytesText(before)} before{" "}
            <button type="button" class="link" onClick={readEarlier}>
              Read earlier lines
            </button>
          </>
        )}
        {isCut && ", and more: narrow the search"}
        {isReading && ", reading…"}
        {isLive && !search && ", following"}
      </p>
    </div>
  );
}
