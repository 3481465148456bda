/** A small matrix as text for the address: rows parted by ";", numbers by ",". */

export const writeMatrix = (matrix: number[][]): string => matrix.map((row) => row.join(",")).join(";");

export const readMatrix = (text: string): number[][] => text.split(";").map((row) => row.split(",").map(Number));

/** A test for `Linked`: a matrix of this shape, every number from −most to most. */
export const matrixOf =
  (rows: number, columns: number, most = 5) =>
  (text: string): boolean => {
    const matrix = readMatrix(text);
    const fits = (each: number) => Math.abs(each) <= most;
    return matrix.length === rows && matrix.every((row) => row.length === columns && row.every(fits));
  };
