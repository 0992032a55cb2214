// The frame around each page: where one is, whether the server is heard, and which keys there are.
import { useEffect, useState } from "preact/hooks";
import { fetchSession } from "../api/api.ts";
import type { Problem } from "../api/problem.ts";
import { ComparePage } from "../runs/compare_page.tsx";
import { DataPage } from "../data/data_page.tsx";
import { LogsPage } from "../logs/logs_page.tsx";
import { MetricsPage } from "../nodes/metrics_page.tsx";
import { NodePage } from "../nodes/node_page.tsx";
import { NodesPage } from "../nodes/nodes_page.tsx";
import { ProfilePage } from "../profiles/profile_page.tsx";
import { RunPage } from "../run/run_page.tsx";
import { WorkerPage } from "../run/worker_page.tsx";
import { RunsPage } from "../runs/runs_page.tsx";
import { ConnectionBanner, ConnectionMark } from "./connection_banner.tsx";
import { KeysDialog } from "./keys_dialog.tsx";
import { useRoute } from "./navigation.ts";
import { Empty } from "./notices.tsx";
import { printable } from "../text/printable.ts";
import type { Route } from "./route.ts";
import { SessionPage, useSession } from "./session_page.tsx";

function Page({ route }: { route: Route }) {
  switch (route.page) {
    case "runs":
      return <RunsPage parameters={route.parameters} />;
    case "run":
      return <RunPage key={route.id} id={route.id} parameters={route.parameters} />;
    case "logs":
      return <LogsPage key={route.id} id={route.id} stream={route.stream} parameters={route.parameters} />;
    case "profile":
      return <ProfilePage key={`${route.id}/${route.name}`} {...route} />;
    case "compare":
      return <ComparePage key={route.ids.join("\n")} ids={route.ids} parameters={route.parameters} />;
    case "worker":
      return <WorkerPage key={`${route.id}/${route.rank}`} {...route} />;
    case "data":
      return <DataPage parameters={route.parameters} />;
    case "metrics":
      return <MetricsPage parameters={route.parameters} />;
    case "nodes":
      return <NodesPage />;
    case "node":
      return (
        <NodePage
          key={`${route.id}\n${route.node}`}
          id={route.id}
          node={route.node}
          parameters={route.parameters}
        />
      );
    case "unknown":
      return (
        <Empty title="There is no such page">
          <a href="#/runs">To the runs</a>
        </Empty>
      );
  }
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, select, textarea");
}

/** '/' goes to the page's filter and Escape leaves it, '?' shows the keys. */
function usePageKeys(showKeys: () => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape" && event.target instanceof HTMLInputElement && event.target.matches("[data-filter]")) {
        event.target.blur();
      }
      if (isTyping(event.target)) return;
      if (event.key === "/") {
        const filter = document.querySelector<HTMLInputElement>("[data-filter]");
        if (!filter) return;
        event.preventDefault();
        filter.focus();
        filter.select();
      } else if (event.key === "?") {
        event.preventDefault();
        showKeys();
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [showKeys]);
}

export function App({ sessionProblem }: { sessionProblem: Problem | undefined }) {
  const route = useRoute();
  const [showsKeys, setShowsKeys] = useState(false);
  const { info, isNeeded } = useSession();
  useEffect(() => void fetchSession().catch(() => {}), []); // the pages tell what goes wrong
  usePageKeys(() => setShowsKeys(true));
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}
      >
        To the content
      </a>
      <header class="top">
        <a class="brand" href="#/runs">
          Paceline
        </a>
        <nav aria-label="Pages">
          <a href="#/runs" aria-current={route.page === "runs" ? "page" : undefined}>
            Runs
          </a>
          <a href="#/data" aria-current={route.page === "data" ? "page" : undefined}>
            Data
          </a>
          <a href="#/metrics" aria-current={route.page === "metrics" ? "page" : undefined}>
            Metrics
          </a>
          <a href="#/nodes" aria-current={route.page === "nodes" || route.page === "node" ? "page" : undefined}>
            Nodes
          </a>
        </nav>
        <span class="fill" />
        {info && (
          <span class="quiet server" title={`paceline ${info.version}`}>
            {printable(`${info.user} on ${info.host}`)}
            {info.read_only && ", read-only"}
          </span>
        )}
        <ConnectionMark />
        <button type="button" class="plain" onClick={() => setShowsKeys(true)} title="Keys (?)">
          Keys
        </button>
      </header>
      <ConnectionBanner />
      <main id="main" tabIndex={-1}>
        {isNeeded || sessionProblem ? <SessionPage problem={sessionProblem} /> : <Page route={route} />}
      </main>
      {showsKeys && <KeysDialog onClose={() => setShowsKeys(false)} />}
    </>
  );
}
