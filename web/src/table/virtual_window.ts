// Which rows of a long list are to be made: those in sight, and a few around them. Pure.

export interface Sight {
  scrollTop: number;
  height: number;
}

export interface VirtualWindow {
  first: number;
  /** Behind the last. */
  end: number;
}

export function virtualWindow({ scrollTop, height }: Sight, rowHeight: number, count: number): VirtualWindow {
  const around = Math.ceil(height / rowHeight / 2) + 4; // so that fast scrolling does not show gaps
  const first = Math.floor(Math.max(0, scrollTop) / rowHeight) - around;
  const end = Math.ceil((Math.max(0, scrollTop) + height) / rowHeight) + around;
  return { first: Math.max(0, Math.min(first, count)), end: Math.max(0, Math.min(end, count)) };
}

/** Where to scroll so that this row is in sight: no further than needed. */
export function scrollTopFor({ scrollTop, height }: Sight, rowHeight: number, row: number): number {
  const top = row * rowHeight;
  if (top < scrollTop) return top;
  if (top + rowHeight > scrollTop + height) return top + rowHeight - height;
  return scrollTop;
}
