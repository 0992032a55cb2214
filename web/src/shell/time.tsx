// Times as readers want them: local, with UTC when the pointer rests on them; how long ago, told anew by itself.
import { useEffect, useState } from "preact/hooks";
import { agoText, durationText, isoTimeText, localTimeText, utcTimeText } from "../format/time.ts";

const TICK_MS = 1000;

/** Seconds since the Unix epoch, anew each second while `ticks`. */
export function useNow(ticks = true): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    if (!ticks) return;
    const timer = window.setInterval(() => setNow(Date.now() / 1000), TICK_MS);
    return () => window.clearInterval(timer);
  }, [ticks]);
  return now;
}

export function Time({ time, text }: { time: number; text?: string }) {
  return (
    <time dateTime={isoTimeText(time)} title={`${localTimeText(time)} here, ${utcTimeText(time)}`}>
      {text ?? localTimeText(time)}
    </time>
  );
}

export function Ago({ time, now }: { time: number; now: number }) {
  return <Time time={time} text={agoText(time, now)} />;
}

/** From `start` to `end`, or until now. */
export function Duration({ start, end, now }: { start: number; end: number | null; now: number }) {
  return <span class="number">{durationText((end ?? now) - start)}</span>;
}
