// A flame graph on a canvas: callers above what they called, widths by samples. A click or Enter zooms, arrow keys walk
// from box to box, and the line above says what the box in question has.
//
// Only boxes that are wide enough to be seen are laid out and drawn, however many functions there are; moving the
// pointer draws nothing anew.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { FlameFrame } from "../api/views.ts";
import { useWidth } from "../chart/width.ts";
import { plural } from "../format/number.ts";
import { printable } from "../text/printable.ts";
import { type FlameColors, useFlameColors } from "./flame_colors.ts";
import { type Box, type Direction, type Layout, boxAt, boxOf, neighbour } from "./flame_layout.ts";
import { childrenOf, layoutOf, trunkOf } from "./flame_layout.ts";
import type { FlameTree } from "./flame_tree.ts";
import { functionText, placeText, shortName } from "./function_name.ts";

const ROW = 18; // pixels
const LEAST_PIXELS = 0.5;
const LEAST_TEXT = 24; // pixels of a box with a name in it
const MOST_CALLERS = 2; // above what has the whole width, unless all are wanted

export interface FlameChartProps<Tree extends FlameTree> {
  label: string;
  tree: Tree;
  /** The node that has the whole width; −1: all. */
  zoom: number;
  onZoom: (node: number) => void;
  /** Which functions a search means; undefined: there is none. */
  isMatch?: ((frame: number) => boolean) | undefined;
  /** What the node has, in words; −1: all together. */
  describe: (node: number) => string;
  colorOf: (node: number, colors: FlameColors) => string;
  /** Before the name, in its box. */
  markOf?: (node: number) => string;
}

interface Drawing {
  layout: Layout;
  width: number;
  colors: FlameColors;
  fillOf: (box: Box) => string;
  nameOf: (box: Box) => string;
}

function draw(canvas: HTMLCanvasElement, { layout, width, colors, fillOf, nameOf }: Drawing): void {
  const context = canvas.getContext("2d");
  if (!context || width === 0) return;
  const scale = window.devicePixelRatio || 1;
  const height = layout.rows.length * ROW;
  canvas.width = width * scale;
  canvas.height = height * scale;
  context.scale(scale, scale);
  context.font = colors.font;
  context.textBaseline = "middle";
  const letter = context.measureText("m").width || 7; // the font's letters are all as wide
  for (const boxes of layout.rows) {
    for (const box of boxes) {
      const left = box.left * width;
      const size = (box.right - box.left) * width;
      context.fillStyle = fillOf(box);
      context.fillRect(left, box.row * ROW, Math.max(LEAST_PIXELS, size - (size > 3 ? 1 : 0)), ROW - 1);
      if (size < LEAST_TEXT) continue;
      const room = Math.floor((size - 8) / letter);
      const name = nameOf(box);
      context.fillStyle = colors.text;
      const shown = name.length > room ? name.slice(0, Math.max(0, room - 1)) + "…" : name;
      context.fillText(shown, left + 4, box.row * ROW + ROW / 2);
    }
  }
}

const KEYS: { [key: string]: Direction } = {
  ArrowUp: "up",
  ArrowDown: "down",
  ArrowLeft: "left",
  ArrowRight: "right",
  Home: "first",
  End: "last",
};

/** Lies over a box: drawn by the style sheet, so that moving it costs nothing. */
function Outline({ box, width, class: name }: { box: Box | undefined; width: number; class: string }) {
  if (!box) return null;
  const style = {
    left: `${box.left * width}px`,
    top: `${box.row * ROW}px`,
    width: `${Math.max(2, (box.right - box.left) * width - 1)}px`,
    height: `${ROW - 1}px`,
  };
  return <div class={name} style={style} />;
}

interface TipProps {
  at: { x: number; y: number };
  width: number;
  frame: FlameFrame;
  text: string;
}

function Tip({ at, width, frame, text }: TipProps) {
  const isRight = at.x > width / 2;
  const side = isRight ? { right: `${width - at.x}px` } : { left: `${at.x}px` };
  return (
    <div class="flame-tip" style={{ top: `${at.y + 22}px`, ...side }} aria-hidden="true">
      <strong>{printable(functionText(frame))}</strong>
      {placeText(frame) && <span class="quiet"> {printable(placeText(frame))}</span>}
      <div>{text}</div>
    </div>
  );
}

export function FlameChart<Tree extends FlameTree>(props: FlameChartProps<Tree>) {
  const { label, tree, zoom, onZoom, isMatch, describe, colorOf, markOf } = props;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const colors = useFlameColors();
  const width = useWidth(box);
  const [pointed, setPointed] = useState<{ box: Box; x: number; y: number } | undefined>();
  const [chosen, setChosen] = useState<number | undefined>(); // by the keyboard or a click
  const children = useMemo(() => childrenOf(tree), [tree]);
  const names = useMemo(() => tree.frames.map((frame) => printable(shortName(functionText(frame)))), [tree.frames]);
  const [showsCallers, setShowsCallers] = useState(false);
  const layout = useMemo(() => {
    const whole = zoom >= 0 ? zoom : trunkOf(tree, children);
    const least = LEAST_PIXELS / Math.max(1, width);
    return layoutOf(tree, children, whole, { least, mostCallers: showsCallers ? Infinity : MOST_CALLERS });
  }, [tree, children, zoom, width, showsCallers]);
  const selected = chosen === undefined ? undefined : boxOf(layout, chosen);
  const frameOf = (node: number) => tree.frames[tree.frame[node]!]!;

  useEffect(() => setPointed(undefined), [layout]);
  useEffect(() => {
    if (!canvas.current) return;
    const nameOf = ({ node }: Box) => (markOf?.(node) ?? "") + names[tree.frame[node]!]!;
    const fillOf = ({ node }: Box) =>
      isMatch && !isMatch(tree.frame[node]!) ? colors.faint : colorOf(node, colors);
    draw(canvas.current, { layout, width, colors, fillOf, nameOf });
  }, [layout, width, colors, isMatch, colorOf, markOf, names]);

  const boxUnder = (event: MouseEvent): { box: Box; x: number; y: number } | undefined => {
    const area = canvas.current?.getBoundingClientRect();
    if (!area) return undefined;
    const [x, y] = [event.clientX - area.left, event.clientY - area.top];
    const found = boxAt(layout, Math.floor(y / ROW), x / width);
    return found && { box: found, x, y };
  };
  const choose = (next: Box | undefined) => {
    setChosen(next?.node);
    const area = box.current;
    if (!next || !area) return;
    const top = next.row * ROW;
    if (top < area.scrollTop) area.scrollTop = top;
    if (top + 2 * ROW > area.scrollTop + area.clientHeight) area.scrollTop = top + 2 * ROW - area.clientHeight;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const direction = KEYS[event.key];
    if (direction) choose(neighbour(layout, selected, direction));
    else if (event.key === "Enter" && selected) onZoom(selected.node === zoom ? -1 : selected.node);
    else if (event.key === "Escape" || event.key === "Backspace") onZoom(-1);
    else return;
    event.preventDefault();
  };
  const shown = pointed?.box.node ?? selected?.node ?? zoom;
  return (
    <>
      <p class="flame-line" id="flame-shown" role="status">
        {describe(shown)}
        {shown >= 0 && (
          <>
            {" · "}
            <strong>{printable(functionText(frameOf(shown)))}</strong>{" "}
            <span class="quiet">{printable(placeText(frameOf(shown)))}</span>
          </>
        )}
      </p>
      {(layout.hidden > 0 || showsCallers) && (
        <button type="button" class="link" aria-pressed={showsCallers} onClick={() => setShowsCallers(!showsCallers)}>
          {showsCallers ? "Hide the outermost callers" : `Show ${plural(layout.hidden, "outer caller")}`}
        </button>
      )}
      <div
        ref={box}
        class="flame-box"
        tabIndex={0}
        role="application"
        aria-label={label}
        aria-describedby="flame-shown flame-keys"
        onKeyDown={onKeyDown}
        onFocus={() => selected ?? setChosen(layout.rows[0]?.[0]?.node)}
      >
        <div class="flame-all" style={{ height: `${layout.rows.length * ROW}px` }}>
          <canvas
            ref={canvas}
            style={{ width: `${width}px`, height: `${layout.rows.length * ROW}px` }}
            onMouseMove={(event) => setPointed(boxUnder(event))}
            onMouseLeave={() => setPointed(undefined)}
            onClick={(event) => {
              const found = boxUnder(event);
              if (!found) return;
              setChosen(found.box.node);
              onZoom(found.box.node === zoom ? -1 : found.box.node);
            }}
          />
          <Outline box={selected} width={width} class="flame-chosen" />
          <Outline box={pointed?.box} width={width} class="flame-pointed" />
          {pointed && (
            <Tip at={pointed} width={width} frame={frameOf(pointed.box.node)} text={describe(pointed.box.node)} />
          )}
        </div>
      </div>
      <p class="quiet flame-keys" id="flame-keys">
        A click zooms, and a second one goes back. Keys: <kbd>←</kbd> <kbd>↑</kbd> <kbd>↓</kbd> <kbd>→</kbd> from
        function to function, <kbd>Enter</kbd> zooms, <kbd>Esc</kbd> shows all.
      </p>
    </>
  );
}
