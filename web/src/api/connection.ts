// How the page stands to the server: it hears news, or has lost it. One for the page.

export type ConnectionState = "none" | "open" | "lost";

type Watcher = () => void;

class Connection {
  state: ConnectionState = "none";
  /** When the server was heard last, in seconds since the Unix epoch. */
  heard = 0;
  private watchers = new Set<Watcher>();

  open(): void {
    this.hear();
    this.change("open");
  }
  hear(): void {
    this.heard = Date.now() / 1000;
  }
  lose(): void {
    this.change("lost");
  }
  close(): void {
    this.change("none");
  }

  watch(watcher: Watcher): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  private change(state: ConnectionState): void {
    if (this.state === state) return;
    this.state = state;
    for (const watcher of this.watchers) watcher();
  }
}

export const connection = new Connection();
