/** Lists in an order of chance. */

/** A new list in an order in which every order is as likely. `random` gives numbers in [0, 1). */
export function shuffled<T>(list: readonly T[], random: () => number = Math.random): T[] {
  const order = [...list];
  for (let at = order.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [order[at], order[other]] = [order[other], order[at]];
  }
  return order;
}
