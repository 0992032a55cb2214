// A reverse proxy with a prefix, as `location /tools/paceline/ { proxy_pass http://127.0.0.1:PORT/; }` is one of nginx.
// It can be stopped and started again: then pages lose the server, and find it again with their session.
import { createServer, request } from "node:http";

export const PREFIX = "/tools/paceline/";

export class Proxy {
  /** Listens at a free port, and passes on to that of `target()`. */
  static async start(target) {
    const proxy = new Proxy();
    proxy.target = target;
    await proxy.listen(0);
    return proxy;
  }

  get address() {
    return `http://127.0.0.1:${this.port}${PREFIX}`;
  }

  async listen(port = this.port) {
    this.server = createServer((asked, answered) => this.pass(asked, answered));
    await new Promise((resolve, reject) => this.server.on("error", reject).listen(port, "127.0.0.1", resolve));
    this.port = this.server.address().port;
  }

  pass(asked, answered) {
    if (!asked.url.startsWith(PREFIX)) return answered.writeHead(404).end();
    const port = this.target();
    const headers = { ...asked.headers, host: `127.0.0.1:${port}` };
    const path = asked.url.slice(PREFIX.length - 1);
    const passed = request({ port, host: "127.0.0.1", method: asked.method, path, headers }, (answer) => {
      answered.writeHead(answer.statusCode, answer.headers);
      answer.pipe(answered);
    });
    passed.on("error", () => answered.destroy());
    answered.on("close", () => passed.destroy());
    asked.pipe(passed);
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
