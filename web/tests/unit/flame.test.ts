import assert from "node:assert/strict";
import { test } from "node:test";
import type { FlameGraph } from "../../src/api/views.ts";
import { changeOf, changes, diffTree } from "../../src/profiles/flame_diff.ts";
import { boxAt, boxOf, childrenOf, layoutOf, neighbour, trunkOf } from "../../src/profiles/flame_layout.ts";
import { functionShares, matchedCount, mergedTree, pathTo, ranksOf, samplesBy } from "../../src/profiles/flame_tree.ts";
import { withoutInterpreter } from "../../src/profiles/interpreter.ts";
import { functionText, matches, placeText, shortName } from "../../src/profiles/function_name.ts";
import { changeText, nodeText, pointsText, samplesText } from "../../src/profiles/profile_text.ts";
import { treeOf, viewOf } from "../../src/profiles/profile_view.ts";

function frame(name: string) {
  return { function: name, file: `${name}.cpp`, line: 1, module: "train" };
}

/** main calls step, which calls step and add; rank 1 has Python too. */
function graphOf(counts: number[][]): FlameGraph {
  const process = { worker: 2, node: "a", pid: 7, rate: 100, seconds: 5, dropped: 0, ways: ["signal"], problems: [] };
  const thread = { tid: 7, name: "main", language: "C++", is_idle: false, nodes: [0, 1, 2, 3] };
  return {
    profile: {
      ...{ name: "one", kind: "cpu", time: 1, who: "", rank: -1, seconds: 5 },
      ...{ ranks: [0, 1], samples: {}, problems: [] },
    },
    frames: ["main", "step", "add", "loop"].map(frame),
    parent: [-1, 0, 1, 1, -1],
    frame: [0, 1, 1, 2, 3],
    processes: [0, 1].map((rank) => ({ ...process, rank })),
    threads: [
      ...counts.map((count, rank) => ({ ...thread, process: rank, counts: count })),
      { process: 1, tid: 8, name: "worker", language: "Python", is_idle: false, nodes: [4], counts: [9] },
    ],
  };
}

const GRAPH = graphOf([
  [1, 2, 0, 5],
  [0, 0, 4, 0],
]);

test("ranks, threads and languages are added up as they are chosen", () => {
  const all = mergedTree(GRAPH, { language: "C++" });
  assert.equal(all.count, 12);
  assert.deepEqual([...all.total], [12, 11, 4, 5, 0]);
  assert.deepEqual([...all.own], [1, 2, 4, 5, 0]);
  assert.deepEqual([...mergedTree(GRAPH, { language: "C++", rank: 1 }).total], [4, 4, 4, 0, 0]);
  assert.equal(mergedTree(GRAPH, { thread: "worker" }).count, 9);
  assert.equal(mergedTree(GRAPH, { rank: 5 }).count, 0);
  assert.deepEqual(samplesBy(GRAPH, "language", {}), [["C++", 12], ["Python", 9]]);
  assert.deepEqual(samplesBy(GRAPH, "name", { rank: 0 }), [["main", 8]]);
  assert.deepEqual(ranksOf(GRAPH), [0, 1]);
});

test("a function that calls itself has a sample once", () => {
  const shares = functionShares(mergedTree(GRAPH, { language: "C++" }));
  assert.deepEqual(
    shares.map(({ own, total }) => [own, total]),
    [[1, 12], [6, 11], [5, 5]],
  );
  const tree = mergedTree(GRAPH, { language: "C++" });
  assert.equal(matchedCount(tree, (one) => one === 1), 11);
  assert.equal(matchedCount(tree, (one) => one === 1 || one === 2), 11);
  assert.equal(matchedCount(tree, () => false), 0);
  assert.deepEqual(pathTo(tree, 3), [0, 1, 3]);
});

test("boxes are as wide as their samples, the widest first", () => {
  const tree = mergedTree(GRAPH, { language: "C++" });
  const children = childrenOf(tree);
  const { rows } = layoutOf(tree, children, -1, { least: 0 });
  assert.deepEqual(
    rows.map((boxes) => boxes.map(({ node, left, right }) => [node, Math.round(left * 12), Math.round(right * 12)])),
    [[[0, 0, 12]], [[1, 0, 11]], [[3, 0, 5], [2, 5, 9]]],
  );
  assert.equal(layoutOf(tree, children, -1, { least: 0.4 }).rows[2]?.length, 1, "what cannot be seen is left out");
});

test("a zoom gives the node and its callers the whole width", () => {
  const tree = mergedTree(GRAPH, { language: "C++" });
  const layout = layoutOf(tree, childrenOf(tree), 1, { least: 0 });
  assert.deepEqual(
    layout.rows.map((boxes) => boxes.map(({ node }) => node)),
    [[0], [1], [3, 2]],
  );
  assert.ok(layout.rows.slice(0, 2).every(([box]) => box?.left === 0 && box.right === 1));
  assert.equal(boxAt(layout, 2, 0.1)?.node, 3);
  assert.equal(boxAt(layout, 2, 0.6)?.node, 2);
  assert.equal(boxAt(layout, 2, 0.99), undefined, "step itself ran there");
  assert.equal(boxAt(layout, 7, 0.1), undefined);
});

test("what all samples have in common may be hidden", () => {
  const tree = mergedTree(graphOf([[0, 2, 1, 5], []]), { language: "C++" });
  const children = childrenOf(tree);
  assert.equal(trunkOf(tree, children), 1);
  const layout = layoutOf(tree, children, 1, { least: 0, mostCallers: 0 });
  assert.equal(layout.hidden, 1);
  assert.deepEqual(
    layout.rows.map((boxes) => boxes.map(({ node, row }) => [node, row])),
    [[[1, 0]], [[3, 1], [2, 1]]],
  );
  const own = mergedTree(GRAPH, { language: "C++" });
  assert.equal(trunkOf(own, childrenOf(own)), 0, "main has samples of its own");
});

test("the keyboard walks from box to box", () => {
  const tree = mergedTree(GRAPH, { language: "C++" });
  const layout = layoutOf(tree, childrenOf(tree), -1, { least: 0 });
  const walk = (from: number | undefined, direction: Parameters<typeof neighbour>[2]) =>
    neighbour(layout, from === undefined ? undefined : boxOf(layout, from), direction)?.node;
  assert.equal(walk(undefined, "down"), 0);
  assert.equal(walk(0, "down"), 1);
  assert.equal(walk(1, "down"), 3);
  assert.equal(walk(3, "down"), 3);
  assert.equal(walk(3, "right"), 2);
  assert.equal(walk(2, "right"), 2);
  assert.equal(walk(2, "left"), 3);
  assert.equal(walk(2, "up"), 1);
  assert.equal(walk(0, "up"), 0);
  assert.equal(walk(3, "first"), 0);
});

test("a large graph is laid out by what can be seen of it", () => {
  const size = 50_000;
  const parent = Array.from({ length: size }, (_, node) => (node === 0 ? -1 : Math.floor((node - 1) / 3)));
  const tree = { ...mergedTree({ ...GRAPH, parent, frame: parent.map(() => 0), threads: [] }, {}) };
  tree.own.fill(1);
  for (let node = size - 1; node >= 0; node--) {
    tree.total[node]! += 1;
    if (parent[node]! >= 0) tree.total[parent[node]!]! += tree.total[node]!;
  }
  const layout = layoutOf({ ...tree, count: size }, childrenOf(tree), -1, { least: 1 / 2000 });
  assert.ok(layout.rows.flat().length < 2000 * layout.rows.length);
  assert.equal(layout.rows[0]?.[0]?.right, 1);
});

test("nothing is there", () => {
  const tree = mergedTree({ ...GRAPH, parent: [], frame: [], frames: [], threads: [] }, {});
  const layout = layoutOf(tree, childrenOf(tree), -1, { least: 0 });
  assert.deepEqual(layout.rows, []);
  assert.equal(neighbour(layout, undefined, "down"), undefined);
  assert.deepEqual(changes(tree, tree, "own"), []);
});

test("two profiles are compared by shares, also what is in one alone", () => {
  const before = mergedTree(GRAPH, { language: "C++", rank: 0 });
  const after = mergedTree(GRAPH, { language: "C++", rank: 1 });
  const tree = diffTree(before, after);
  const node = (path: string[]) => {
    const names = (at: number) => pathTo(tree, at).map((one) => tree.frames[tree.frame[one]!]!.function);
    return [...tree.total.keys()].find((at) => names(at).join() === path.join())!;
  };
  const add = node(["main", "step", "add"]);
  assert.deepEqual([tree.before[add], tree.after[add], tree.total[add]], [5 / 8, 0, 5 / 16]);
  const inner = node(["main", "step", "step"]);
  assert.deepEqual([tree.before[inner], tree.after[inner]], [0, 1]);
  assert.ok(Math.abs(tree.count - 1) < 1e-9);
  const [most] = changes(before, after, "own");
  assert.equal(most?.frame.function, "step");
  assert.equal(changeOf(most!, "own"), 1 - 2 / 8);
  assert.equal(changes(before, after, "total")[0]?.frame.function, "add");
});

test("functions of the interpreter that call each other are one box", () => {
  const python = (name: string) => ({ ...frame(name), module: "libpython3.11.so.1.0" });
  const graph = {
    ...GRAPH,
    frames: [python("main"), python("eval"), frame("step"), python("call")],
    // main > eval > step > eval > call, and main > call
    parent: [-1, 0, 1, 2, 3, 0],
    frame: [0, 1, 2, 1, 3, 3],
    threads: [{ ...GRAPH.threads[0]!, nodes: [1, 2, 4, 5], counts: [1, 2, 3, 4] }],
  };
  const tree = withoutInterpreter(mergedTree(graph, {}));
  assert.deepEqual(
    [...tree.total.keys()].map((node) => [tree.frames[tree.frame[node]!]!.function, tree.own[node], tree.total[node]]),
    [["[Python interpreter]", 5, 10], ["step", 2, 5], ["[Python interpreter]", 3, 3]],
  );
});

test("the view is what the address says, as far as the profile has it", () => {
  assert.deepEqual(viewOf({}, GRAPH), {
    ...{ rank: undefined, thread: "", language: "Python", interpreter: false, search: "" },
    ...{ zoom: -1, than: "", thanRank: undefined },
  });
  const view = viewOf({ rank: "1", language: "C++", at: "3", than: "one", than_rank: "0", q: "x" }, GRAPH);
  assert.deepEqual([view.rank, view.language, view.zoom, view.than, view.thanRank], [1, "C++", 3, "one", 0]);
  assert.deepEqual(viewOf({ rank: "7", language: "Perl", at: "-3" }, GRAPH).rank, undefined);
});

test("names are shortened to what one reads first", () => {
  for (const [name, short] of [
    ["at::native::add<float>(at::Tensor const&)", "at::native::add"],
    ["void at::native::(anonymous namespace)::loop<int>(char**, long const*)", "at::native::loop"],
    ["std::function<void (int)>::operator()(int) const", "std::function::operator()"],
    ["paceline::run(int)::{lambda(int)#1}::operator()(int) const", "paceline::run::lambda::operator()"],
    ["std::ostream& operator<< <char>(std::ostream&)", "operator<<"],
    ["pybind11::object pybind11::api<int>::operator()<1>(int)", "pybind11::api::operator()"],
    ["train_loop", "train_loop"],
    ["<module>", "<module>"],
    ["[callers unknown]", "[callers unknown]"],
    ["mkl_blas_avx512_sgemm_kernel_0", "mkl_blas_avx512_sgemm_kernel_0"],
    ["(", "("],
  ]) {
    assert.equal(shortName(name!), short);
  }
  const unnamed = { function: "", file: "", line: 0, module: "libmkl.so" };
  assert.equal(functionText(unnamed), "in libmkl.so");
  assert.equal(placeText({ ...unnamed, file: "a.cpp", line: 3 }), "a.cpp:3");
  assert.ok(matches(unnamed, "MKL") && !matches(unnamed, "gemm"));
});

test("what is said of profiles", () => {
  assert.equal(nodeText(340, 20, 1000, 0.01), "34 %: 340 of 1,000 samples, 3.4 s; itself 2.0 %");
  assert.equal(changeText(0.1, 0.181), "10 % before, 18 % after: +8.1 points");
  assert.equal(pointsText(-0.02), "−2.0 points");
  assert.equal(pointsText(0.0001), "±0 points");
  assert.equal(samplesText({ kind: "cpu", samples: { "C++": 1200, Python: 4 } }), "1,200 of C++, 4 of Python");
  assert.equal(samplesText({ kind: "memory", samples: { operators: 3 << 20 } }), "3 MiB of operators");
  assert.equal(samplesText({ kind: "cpu", samples: {} }), "none");
  assert.equal(samplesText({ kind: "timeline", samples: {} }), "");
  assert.equal(nodeText(1 << 20, 0, 2 << 20, null), "50 %: 1 MiB of 2 MiB; itself 0.0 %");
});

test("threads that waited all the time are not in a profile of waits, unless one is chosen", () => {
  const graph = graphOf([[0, 0, 500, 0], [10, 0, 0, 0]]); // the loops' own threads
  graph.profile.kind = "off_cpu";
  const other = { process: 1, language: "C++", nodes: [3] };
  graph.threads[2] = { ...other, tid: 8, name: "pool", is_idle: true, counts: [499] };
  graph.threads.push({ ...other, tid: 9, name: "reader", is_idle: false, counts: [300] });
  assert.equal(treeOf(graph, viewOf({}, graph), undefined).count, 810);
  assert.equal(treeOf(graph, viewOf({ thread: "pool" }, graph), undefined).count, 499);
  const onlyPool = { ...graph, threads: [graph.threads[2]!] };
  assert.equal(treeOf(onlyPool, viewOf({}, onlyPool), undefined).count, 0);
});
