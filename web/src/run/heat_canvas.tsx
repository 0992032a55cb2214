// A heat map on a canvas: a row for each rank, a column for each moment, the hotter the slower. Arrow keys walk from cell
// to cell, and the line above says what the cell in question has; a click or Enter opens the rank's page.
//
// It is drawn when there are new numbers; pointing at a cell draws nothing anew, however many ranks there are.
import { useEffect, useRef, useState } from "preact/hooks";
import { useTheme } from "../chart/theme.ts";
import { useWidth } from "../chart/width.ts";
import { numberText, plural } from "../format/number.ts";
import { clockText, durationText, localTimeText } from "../format/time.ts";
import { go } from "../shell/navigation.ts";
import { workerHash } from "../shell/route.ts";
import { type HeatKind, type StepHeat, colorAt, levelsOf, partsOfColor, pixelLevels, slowestOf } from "./step_heat.ts";

const ROW = 16; // pixels, where there is room for it
const MOST_HEIGHT = 480;
const LEAST_ROW = 2; // however many ranks there are: one that is slow is seen
const LABEL_SPACE = 16;

interface Cell {
  row: number;
  column: number;
}

const clamp = (value: number, most: number) => Math.max(0, Math.min(most, value));

function describe(heat: StepHeat, { row, column }: Cell): string {
  const time = heat.begin + column * heat.seconds;
  const where = `rank ${heat.ranks[row]} at ${localTimeText(time)}`;
  const value = heat.values[row * heat.columns + column]!;
  const ratio = heat.ratios[row * heat.columns + column]!;
  if (Number.isNaN(value)) return `${where}: no steps`;
  const against = Number.isNaN(ratio) ? "" : `, ${numberText(Number(ratio.toFixed(2)))} × the median of the others`;
  return `${where}: ${durationText(value)} a step${against}`;
}

function summaryOf(heat: StepHeat): string {
  const ends = [0, heat.columns - 1].map((column) => clockText(heat.begin + column * heat.seconds));
  const slowest = slowestOf(heat);
  const last = slowest ? ` Slowest at the end: ${describe(heat, slowest)}.` : "";
  return `Step times of ${plural(heat.ranks.length, "rank")} from ${ends.join(" to ")}.${last}`;
}

interface Drawing {
  heat: StepHeat;
  kind: HeatKind;
  width: number;
  height: number;
  /** From cool to hot. */
  colors: string[];
}

function draw(canvas: HTMLCanvasElement, { heat, kind, width, height, colors }: Drawing): void {
  const context = canvas.getContext("2d");
  if (!context || width === 0 || heat.columns === 0) return;
  const stops = colors.map(partsOfColor);
  const pixels = pixelLevels(levelsOf(heat, kind), heat.ranks.length, heat.columns, height, LEAST_ROW);
  const image = new ImageData(heat.columns, height);
  for (let pixel = 0; pixel < pixels.length; pixel++) {
    const level = pixels[pixel]!;
    if (Number.isNaN(level)) continue; // transparent
    image.data.set([...colorAt(stops, level), 255], 4 * pixel);
  }
  const small = document.createElement("canvas");
  small.width = heat.columns;
  small.height = height;
  small.getContext("2d")?.putImageData(image, 0, 0);
  canvas.width = width * (window.devicePixelRatio || 1);
  canvas.height = height * (window.devicePixelRatio || 1);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  const row = canvas.height / heat.ranks.length;
  if (row < 6) return;
  for (let rank = 1; rank < heat.ranks.length; rank++) context.clearRect(0, Math.round(rank * row) - 1, canvas.width, 1);
}

const STEPS: { [key: string]: [number, number] } = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-16, 0],
  PageDown: [16, 0],
  Home: [0, -Infinity],
  End: [0, Infinity],
};

interface OutlineProps {
  cell: Cell | undefined;
  heat: StepHeat;
  width: number;
  height: number;
  class: string;
}

/** Lies over a cell: drawn by the style sheet, so that moving it costs nothing. */
function Outline({ cell, heat, width, height, class: name }: OutlineProps) {
  if (!cell) return null;
  const [rowHeight, columnWidth] = [height / heat.ranks.length, width / heat.columns];
  const style = {
    left: `${cell.column * columnWidth}px`,
    top: `${cell.row * rowHeight}px`,
    width: `${Math.max(3, columnWidth)}px`,
    height: `${Math.max(3, rowHeight)}px`,
  };
  return <div class={name} style={style} />;
}

/** In pixels, without the lines of text around it. */
export function heightOf(ranks: number): number {
  return Math.round(Math.min(MOST_HEIGHT, ROW * ranks));
}

function RankLabels({ ranks, height }: { ranks: number[]; height: number }) {
  const each = Math.ceil((LABEL_SPACE * ranks.length) / height);
  return (
    <div class="heat-ranks number" aria-hidden="true">
      {ranks.map(
        (rank, row) =>
          row % each === 0 && (
            <span key={rank} style={{ top: `${((row + 0.5) * height) / ranks.length}px` }}>
              {rank}
            </span>
          ),
      )}
    </div>
  );
}

export function HeatCanvas({ id, heat, kind }: { id: string; heat: StepHeat; kind: HeatKind }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const width = useWidth(box);
  const height = heightOf(heat.ranks.length);
  const [pointed, setPointed] = useState<Cell | undefined>();
  const [chosen, setChosen] = useState<Cell | undefined>();
  useEffect(() => {
    if (canvas.current) draw(canvas.current, { heat, kind, width, height, colors: theme.heat });
  }, [heat, kind, width, height, theme]);

  const cellUnder = (event: MouseEvent): Cell | undefined => {
    const area = canvas.current?.getBoundingClientRect();
    if (!area || area.width === 0) return undefined;
    return {
      row: clamp(Math.floor(((event.clientY - area.top) / area.height) * heat.ranks.length), heat.ranks.length - 1),
      column: clamp(Math.floor(((event.clientX - area.left) / area.width) * heat.columns), heat.columns - 1),
    };
  };
  const open = ({ row }: Cell) => go(workerHash(id, heat.ranks[row] ?? 0));
  const inside = (cell: Cell): Cell => ({
    row: clamp(cell.row, heat.ranks.length - 1),
    column: clamp(cell.column, heat.columns - 1),
  });
  const start = slowestOf(heat) ?? { row: 0, column: heat.columns - 1 };
  // The newest numbers may have fewer columns.
  const current = chosen && inside(chosen);
  const under = pointed && inside(pointed);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = STEPS[event.key];
    if (step) setChosen(current ? inside({ row: current.row + step[0], column: current.column + step[1] }) : start);
    else if (event.key === "Enter" && current) open(current);
    else if (event.key === "Escape") setChosen(undefined);
    else return;
    event.preventDefault();
  };
  const shown = under ?? current;
  return (
    <>
      <p class="flame-line" id="heat-shown" role="status">
        {shown ? describe(heat, shown) : `Slowest at the end: ${describe(heat, start)}`}
      </p>
      <div class="heat-frame">
        <RankLabels ranks={heat.ranks} height={height} />
        <div
          ref={box}
          class="heat-box"
          tabIndex={0}
          role="application"
          aria-label={summaryOf(heat)}
          aria-describedby="heat-shown heat-keys"
          onKeyDown={onKeyDown}
          onFocus={(event) => event.currentTarget.matches(":focus-visible") && !current && setChosen(start)}
        >
          <canvas
            ref={canvas}
            style={{ width: `${width}px`, height: `${height}px` }}
            onMouseMove={(event) => setPointed(cellUnder(event))}
            onMouseLeave={() => setPointed(undefined)}
            onClick={(event) => {
              const cell = cellUnder(event);
              if (cell) open(cell);
            }}
          />
          <Outline cell={current} heat={heat} width={width} height={height} class="flame-chosen" />
          <Outline cell={under} heat={heat} width={width} height={height} class="flame-pointed" />
        </div>
      </div>
      <p class="heat-times quiet number" aria-hidden="true">
        <span>{clockText(heat.begin)}</span>
        <span>{clockText(heat.begin + (heat.columns - 1) * heat.seconds)}</span>
      </p>
      <p class="quiet flame-keys" id="heat-keys">
        A click opens the rank's page. Keys: <kbd>←</kbd> <kbd>↑</kbd> <kbd>↓</kbd> <kbd>→</kbd> from cell to cell,{" "}
        <kbd>Enter</kbd> opens the rank.
      </p>
    </>
  );
}
