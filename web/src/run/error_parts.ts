// The parts of a run's error, as Paceline writes it: the cause, frames and remarks, the last lines of the worker. Pure.

export interface ErrorParts {
  cause: string;
  where: string[];
  written: string[];
  /** The file with all that it wrote; "" where it is not told. */
  file: string;
}

const WRITTEN_BEGIN = "Last lines that it wrote:";
const WRITTEN_LINE = "  | ";
const FILE_LINE = "All that it wrote: ";

export function splitError(error: string): ErrorParts {
  const [cause = "", ...rest] = error.trimEnd().split("\n");
  const isWritten = (line: string) => line.startsWith(WRITTEN_LINE);
  const isFile = (line: string) => line.startsWith(FILE_LINE);
  return {
    cause,
    where: rest.filter((line) => !isWritten(line) && !isFile(line) && line !== WRITTEN_BEGIN),
    written: rest.filter(isWritten).map((line) => line.slice(WRITTEN_LINE.length)),
    file: rest.find(isFile)?.slice(FILE_LINE.length) ?? "",
  };
}
