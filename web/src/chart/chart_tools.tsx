// How charts are looked at: over reports or time, which reports, linear or logarithmic. It stands in the address, so
// that a link shows the same. Everything that dragging does can be typed too.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Choices } from "../shell/choices.tsx";
import { setParameters } from "../shell/navigation.ts";
import type { Parameters } from "../shell/route.ts";
import type { XKind } from "./series.ts";

export interface ChartView {
  x: XKind;
  logarithmic: boolean;
  smoothing: number;
  from: number | undefined;
  to: number | undefined;
  zoom: (from: number, to: number) => void;
  reset: () => void;
}

const SMOOTHINGS = [
  { key: "", title: "none", weight: 0 },
  { key: "little", title: "little", weight: 0.6 },
  { key: "more", title: "more", weight: 0.9 },
  { key: "much", title: "much", weight: 0.97 },
];

function numberOf(text: string | undefined): number | undefined {
  const number = Number(text);
  return text && Number.isFinite(number) ? number : undefined;
}

export function chartViewOf(parameters: Parameters): ChartView {
  return {
    x: parameters["x"] === "time" ? "time" : "report",
    logarithmic: parameters["y"] === "log",
    smoothing: SMOOTHINGS.find((one) => one.key === parameters["smooth"])?.weight ?? 0,
    from: numberOf(parameters["from"]),
    to: numberOf(parameters["to"]),
    // In the history, so that "back" zooms out.
    zoom: (from, to) => setParameters({ from: String(from), to: String(to) }, { replace: false }),
    reset: () => setParameters({ from: "", to: "" }, { replace: false }),
  };
}

/** A report's number. It is taken when the field is left; what is being typed outlives news that redraw the page. */
function ReportInput({ name, value, placeholder }: { name: string; value: number | undefined; placeholder: string }) {
  const [text, setText] = useState("");
  useEffect(() => setText(value === undefined ? "" : String(value)), [value]);
  return (
    <input
      type="number"
      min={1}
      value={text}
      placeholder={placeholder}
      onInput={(event) => setText(event.currentTarget.value)}
      onChange={(event) => setParameters({ [name]: event.currentTarget.value })}
    />
  );
}

const OVER: { key: XKind; title: string }[] = [
  { key: "report", title: "Reports" },
  { key: "time", title: "Time" },
];

export function ChartTools({ view, children }: { view: ChartView; children?: ComponentChildren }) {
  const { x, logarithmic, smoothing, from, to, reset } = view;
  return (
    <div class="toolbar chart-tools">
      {children}
      <Choices
        label="Over"
        all={OVER}
        chosen={x}
        onChoose={(key) => setParameters({ x: key === "report" ? "" : key })}
      />
      <label>
        <input
          type="checkbox"
          checked={logarithmic}
          onChange={(event) => setParameters({ y: event.currentTarget.checked ? "log" : "" })}
        />{" "}
        Logarithmic
      </label>
      <label>
        Smoothing{" "}
        <select
          value={SMOOTHINGS.find((one) => one.weight === smoothing)?.key ?? ""}
          onChange={(event) => setParameters({ smooth: event.currentTarget.value })}
        >
          {SMOOTHINGS.map(({ key, title }) => (
            <option key={key} value={key}>
              {title}
            </option>
          ))}
        </select>
      </label>
      <span class="range">
        <label>
          Reports <ReportInput name="from" value={from} placeholder="first" />
        </label>
        <label>
          to <ReportInput name="to" value={to} placeholder="last" />
        </label>
        {(from !== undefined || to !== undefined) && (
          <button type="button" onClick={reset}>
            Show all
          </button>
        )}
      </span>
    </div>
  );
}
