/** One page of a list, as on the wire. Iterating over it walks this page's items and then those of all later pages. */
export interface Page<T> extends AsyncIterable<T> {
  object: "list";
  /** The items. */
  data: T[];
  /** Whether there are items after these. */
  has_more: boolean;
  /** Id of the first item, "" when the page is empty. */
  first_id: string;
  /** Id of the last item, "" when the page is empty: the `after` of the next page. */
  last_id: string;
}
