// Charts of samples, with what chooses the part of the time that they show.
import { Chart } from "../chart/chart.tsx";
import { Choices } from "../shell/choices.tsx";
import { setParameters } from "../shell/navigation.ts";
import type { Parameters } from "../shell/route.ts";
import { type SampleChart, SPANS } from "./sample_charts.ts";

/** Dragging and choosing stand in the address; "back" zooms out. */
const zoom = (from: number, to: number) =>
  setParameters({ from: String(Math.floor(from)), to: String(Math.ceil(to) + 1) }, { replace: false });
const reset = () => setParameters({ from: "", to: "" }, { replace: false });

/** `isBare`: within another toolbar, of something that is not dragged over. */
export function SpanTools({ parameters, isBare = false }: { parameters: Parameters; isBare?: boolean }) {
  const isZoomed = Boolean(parameters["from"]);
  return (
    <div class={isBare ? "span-tools" : "toolbar chart-tools"}>
      <Choices
        label="Part of the time"
        all={SPANS}
        chosen={isZoomed ? "zoomed" : (parameters["span"] ?? "")}
        onChoose={(key) => setParameters({ span: key, from: "", to: "" })}
      />
      {isZoomed && (
        <button type="button" onClick={reset}>
          Zoom out
        </button>
      )}
      {!isBare && <span class="quiet">Drag over a chart to zoom.</span>}
    </div>
  );
}

export function ChartGrid({ charts, sync, isLoading }: { charts: SampleChart[]; sync: string; isLoading: boolean }) {
  return (
    <div class="charts" aria-busy={isLoading}>
      {charts.map(({ title, unit, lines, isNamed }) => (
        <Chart
          key={title}
          title={isNamed && lines.length === 1 ? `${title}: ${lines[0]?.label}` : title}
          lines={lines}
          x="time"
          logarithmic={false}
          smoothing={0}
          sync={sync}
          unit={unit}
          onZoom={zoom}
          onReset={reset}
        />
      ))}
    </div>
  );
}
