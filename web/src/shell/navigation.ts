// Going to pages of the dashboard, and hearing where one is.
import { useEffect, useState } from "preact/hooks";
import { type Parameters, type Route, hashOf, routeOf } from "./route.ts";

const CHANGED = "paceline:route"; // pushState and replaceState tell nobody

/** `replace`: without an entry in the history, for what changes with each key that is typed. */
export function go(hash: string, { replace = false } = {}): void {
  if (replace) window.history.replaceState(null, "", hash);
  else window.history.pushState(null, "", hash);
  window.dispatchEvent(new Event(CHANGED));
}

/** Stays on the page and changes some of its parameters; "" takes one away. */
export function setParameters(changes: Parameters, { replace = true } = {}): void {
  const route = routeOf(window.location.hash);
  go(hashOf({ ...route, parameters: { ...route.parameters, ...changes } }), { replace });
}

export function useRoute(): Route {
  const [hash, setHash] = useState(window.location.hash);
  useEffect(() => {
    const read = () => setHash(window.location.hash);
    const events = ["hashchange", "popstate", CHANGED];
    for (const event of events) window.addEventListener(event, read);
    return () => {
      for (const event of events) window.removeEventListener(event, read);
    };
  }, []);
  return routeOf(hash);
}
