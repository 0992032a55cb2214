// The rows of a long list, of which only those in sight are made. All have the same height.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { scrollTopFor, virtualWindow } from "./virtual_window.ts";

export interface VirtualRowsProps {
  count: number;
  rowHeight: number;
  row: (index: number) => ComponentChildren;
  class?: string;
  role?: "table" | "group";
  label: string;
  /** This row is brought into sight when it changes. */
  inSight?: number | undefined;
  /** Stays at the end while rows are added there, as long as the end is in sight. */
  follows?: boolean;
  /** Above the rows; stays in sight. */
  head?: ComponentChildren;
  onStart?: () => void;
}

const AT_END_PIXELS = 4;

export function VirtualRows(props: VirtualRowsProps) {
  const { count, rowHeight, row, role, label, inSight, follows = false, head, onStart } = props;
  const box = useRef<HTMLDivElement>(null);
  const headBox = useRef<HTMLDivElement>(null);
  const atEnd = useRef(follows);
  const [sight, setSight] = useState({ scrollTop: 0, height: window.innerHeight });

  const look = useCallback(() => {
    const element = box.current;
    if (!element) return;
    const { scrollTop, clientHeight, scrollHeight } = element;
    atEnd.current = scrollTop + clientHeight >= scrollHeight - AT_END_PIXELS;
    setSight((before) =>
      before.scrollTop === scrollTop && before.height === clientHeight ? before : { scrollTop, height: clientHeight },
    );
    if (scrollTop < rowHeight) onStart?.();
  }, [rowHeight, onStart]);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      if (atEnd.current && element.dataset["follows"]) element.scrollTop = element.scrollHeight;
      look();
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [look]);

  useLayoutEffect(() => {
    const element = box.current;
    if (element && follows && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [count, follows]);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element || inSight === undefined || inSight < 0) return;
    const height = element.clientHeight - (headBox.current?.offsetHeight ?? 0);
    element.scrollTop = scrollTopFor({ scrollTop: element.scrollTop, height }, rowHeight, inSight);
  }, [inSight, rowHeight]);

  const { first, end } = virtualWindow(sight, rowHeight, count);
  const rows = [];
  for (let index = first; index < end; index++) rows.push(row(index));
  return (
    // A box that scrolls has to take the keyboard's focus, or its rows cannot be reached without a mouse.
    <div
      ref={box}
      class={`virtual ${props.class ?? ""}`}
      data-follows={follows || undefined}
      onScroll={look}
      tabIndex={0}
      role={role ?? "group"}
      aria-label={label}
      {...(role === "table" ? { "aria-rowcount": count + 1 } : {})}
    >
      {head && (
        <div ref={headBox} class="virtual-head" role={role === "table" ? "rowgroup" : undefined}>
          {head}
        </div>
      )}
      <div
        class="virtual-all"
        style={{ height: `${count * rowHeight}px` }}
        role={role === "table" ? "rowgroup" : "presentation"}
      >
        <div class="virtual-seen" style={{ transform: `translateY(${first * rowHeight}px)` }} role="presentation">
          {rows}
        </div>
      </div>
    </div>
  );
}
