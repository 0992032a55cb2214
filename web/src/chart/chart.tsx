// One chart: a curve for each of its lines, a band from the lowest to the highest value of what a point stands for.
// Dragging over it zooms; a double click shows all again.
import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { countText, numberText, tickText } from "../format/number.ts";
import { clockText, localTimeText } from "../format/time.ts";
import { printable } from "../text/printable.ts";
import { type Points, type XKind, alignedColumns, extentOf, lastOf } from "./series.ts";
import { rangeAround, reportsBetween, smoothed } from "./series.ts";
import { type Theme, useTheme } from "./theme.ts";

export interface Line {
  label: string;
  points: Points;
}

export interface Unit {
  text: (value: number) => string;
  /** The axis begins at 0, and goes to this at least. */
  atLeast?: number;
  /** What may lie between its ticks. */
  steps?: number[];
}

export interface ChartProps {
  title: string;
  lines: Line[];
  x: XKind;
  logarithmic: boolean;
  /** 0: as the values are; towards 1: smoother. */
  smoothing: number;
  /** Charts with the same word show the same place under the pointer. */
  sync: string;
  height?: number;
  /** What the values are of; plain numbers without one. */
  unit?: Unit;
  onZoom: (from: number, to: number) => void;
  onReset: () => void;
}

const HEIGHT = 190;
const FEW_POINTS = 40; // each of which gets a dot
const COLUMNS_OF_LINE = 3; // lowest, highest, last

interface Readout {
  place: HTMLElement | null;
  values: HTMLElement[];
}

/** What stands under the pointer, else the last values. */
function writeReadout(
  readout: Readout,
  props: ChartProps,
  data: uPlot.AlignedData,
  index: number | null | undefined,
): void {
  const place = index === null || index === undefined ? undefined : data[0][index];
  if (readout.place) {
    readout.place.textContent =
      place === undefined ? "" : props.x === "report" ? `report ${countText(place)}` : localTimeText(place);
  }
  const valueText = props.unit?.text ?? numberText;
  props.lines.forEach((line, number) => {
    const element = readout.values[number];
    if (!element) return;
    const at = (column: number) => data[1 + COLUMNS_OF_LINE * number + column]?.[index ?? -1];
    if (place === undefined) {
      element.textContent = lastText(line, props.unit);
      return;
    }
    const [least, greatest, value] = [at(0), at(1), at(2)];
    const isBand = typeof least === "number" && typeof greatest === "number" && least < greatest;
    const text = typeof value === "number" ? valueText(value) : "–";
    element.textContent = isBand ? `${text} (${valueText(least)} … ${valueText(greatest)})` : text;
  });
}

function seriesOf(lines: Line[], theme: Theme): { series: uPlot.Series[]; bands: uPlot.Band[] } {
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  lines.forEach((line, number) => {
    const color = theme.lines[number % theme.lines.length] ?? theme.text;
    const edge: uPlot.Series = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: lines.length > 1 };
    const first = 1 + COLUMNS_OF_LINE * number;
    series.push(edge, edge, {
      label: line.label,
      stroke: color,
      width: 1.5,
      spanGaps: lines.length > 1,
      points: { show: line.points.report.length < FEW_POINTS, size: 5 },
    });
    bands.push({ series: [first + 1, first], fill: color + "2e" });
  });
  return { series, bands };
}

/** Between the ticks of reports, which are whole numbers. */
const WHOLE_STEPS = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

/** Without any value both are null, whatever their types say. */
function valueRange(least: number, greatest: number, unit: Unit | undefined): uPlot.Range.MinMax {
  if (least === null) return [null, null];
  if (unit?.atLeast !== undefined && least >= 0) return [0, Math.max(greatest * 1.05, unit.atLeast)];
  return least === greatest ? rangeAround(least, greatest) : uPlot.rangeNum(least, greatest, 0.1, true);
}

/** uPlot has added some space already around a single place: far too much, for a time. */
function placeRange(plot: uPlot, least: number, greatest: number): uPlot.Range.MinMax {
  const places = plot.data[0];
  const only = places[0];
  return only !== undefined && places.length === 1 ? rangeAround(only, only, 1) : [least, greatest];
}

function timeTicks(_: uPlot, places: number[]): string[] {
  return places.map((place) => clockText(place));
}

/** `latest` gives the properties of the moment: a plot outlives them. */
function optionsOf(
  latest: () => ChartProps,
  theme: Theme,
  width: number,
  read: (plot: uPlot) => void,
): uPlot.Options {
  const { x, lines, logarithmic, sync, height, unit } = latest();
  const axis = {
    stroke: theme.muted,
    grid: { stroke: theme.line, width: 1 },
    ticks: { show: false },
    font: theme.font,
  };
  return {
    width,
    height: height ?? HEIGHT,
    ...seriesOf(lines, theme),
    legend: { show: false },
    padding: [8, x === "time" ? 30 : 18, 0, 0], // half of the last label
    scales: {
      x: { time: false, range: placeRange },
      y: logarithmic ? { distr: 3 } : { range: (_, least, greatest) => valueRange(least, greatest, latest().unit) },
    },
    axes: [
      {
        ...axis,
        size: 26,
        gap: 4,
        ...(x === "time" ? { space: 80, values: timeTicks } : { space: 50, incrs: WHOLE_STEPS }),
      },
      {
        ...axis,
        size: 62,
        gap: 4,
        space: 28,
        ...(unit?.steps && { incrs: unit.steps }),
        values: (_, ticks, _axis, _space, step) =>
          ticks.map((tick) => (tick === null ? "" : (latest().unit?.text(tick) ?? tickText(tick, step)))),
      },
    ],
    cursor: {
      // The place under the pointer is shown in all charts, but only the one that is dragged over zooms.
      sync: {
        key: sync,
        scales: ["x", null],
        filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
      },
      drag: { x: true, y: false, setScale: false },
      points: { size: 6 },
      focus: { prox: -1 },
    },
    hooks: {
      setCursor: [read],
      setSelect: [
        (plot) => {
          if (plot.select.width < 4) return;
          const from = plot.posToVal(plot.select.left, "x");
          const to = plot.posToVal(plot.select.left + plot.select.width, "x");
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          const ranges = latest().lines.flatMap((line) => reportsBetween(line.points, x, from, to) ?? []);
          if (ranges.length > 0) latest().onZoom(Math.min(...ranges), Math.max(...ranges));
        },
      ],
    },
  };
}

/** What the chart shows, for who does not see it. */
function summaryOf({ title, lines, x, unit }: ChartProps): string {
  const valueText = unit?.text ?? numberText;
  const parts = lines.map(({ label, points }) => {
    const extent = extentOf(points);
    if (!extent) return `${label}: no numbers`;
    const ends = [points[x][0] ?? 0, points[x].at(-1) ?? 0].map((place) => (x === "time" ? clockText(place) : countText(place)));
    const range = `from ${valueText(extent.least)} to ${valueText(extent.greatest)}`;
    return `${label}: last ${valueText(lastOf(points) ?? NaN)}, ${range}, ${x}s ${ends.join(" to ")}`;
  });
  return `${title} by ${x}. ${parts.join(". ")}`;
}

function lastText({ points }: Line, unit: Unit | undefined): string {
  const last = lastOf(points);
  if (last === null) return unit ? "–" : numberText(NaN);
  return (unit?.text ?? numberText)(last);
}

export function Chart(props: ChartProps) {
  const { title, lines, x, logarithmic, smoothing, onReset } = props;
  const box = useRef<HTMLDivElement>(null);
  const place = useRef<HTMLSpanElement>(null);
  const values = useRef<(HTMLElement | null)[]>([]); // whose text is written here alone: Preact would lose it
  const theme = useTheme();
  const data = useMemo(
    () =>
      alignedColumns(
        lines.map((line) => smoothed(line.points, smoothing)),
        x,
        logarithmic,
      ) as uPlot.AlignedData,
    [lines, x, logarithmic, smoothing],
  );
  const latest = useRef(props);
  latest.current = props;

  // A plot is made anew when what it is made of changes; new values alone are given to the one that is there.
  const hasPoints = lines.map((line) => line.points.report.length < FEW_POINTS);
  const shape = JSON.stringify([x, logarithmic, props.sync, lines.map((line) => line.label), hasPoints, theme]);
  const plot = useRef<uPlot | null>(null);
  const read = (made: uPlot) => {
    const readout = { place: place.current, values: values.current.filter((one) => one !== null) };
    writeReadout(readout, latest.current, made.data, made.cursor.idx);
  };
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(
      optionsOf(() => latest.current, theme, element.clientWidth, read),
      data,
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0)
        made.setSize({ width: element.clientWidth, height: latest.current.height ?? HEIGHT });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => {
    if (!plot.current) return;
    if (plot.current.data !== data) plot.current.setData(data);
    read(plot.current);
  });

  const notFinite = lines.reduce((sum, line) => sum + line.points.notFinite, 0);
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title" title={title}>
          <bdi>{printable(title)}</bdi>
        </span>
        {notFinite > 0 && <span class="warn-text">{countText(notFinite)} not finite</span>}
        <span ref={place} class="quiet number" />
        <span class="legend">
          {lines.map((line, number) => (
            <span key={line.label} class="legend-entry">
              {lines.length > 1 && (
                <>
                  <span class={`swatch line-${number % theme.lines.length}`} />
                  <bdi>{printable(line.label)}</bdi>
                </>
              )}
              <span class="number" ref={(element) => void (values.current[number] = element)} />
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={box} class="plot" role="img" aria-label={printable(summaryOf(props))} onDblClick={onReset} />
    </figure>
  );
}
