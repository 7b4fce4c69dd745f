//! Tables of aligned columns and counted nouns, for people.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

/// On which side a column's cells line up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Lines up `rows` under `heads`, each line indented by two columns and ending in a newline.
/// Columns are as wide as their widest cell on a terminal, also where letters are wide.
pub(crate) fn text_table<const N: usize>(heads: [(&str, Align); N], rows: &[[String; N]]) -> String {
    let mut widths = heads.map(|(head, _)| head.width());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let mut text = String::new();
    let mut add_line = |cells: [&str; N]| {
        let mut line = String::new();
        for ((cell, width), (_, align)) in cells.iter().zip(widths).zip(heads) {
            let padding = " ".repeat(width - cell.width());
            let _ = match align {
                Align::Left => write!(line, "  {cell}{padding}"),
                Align::Right => write!(line, "  {padding}{cell}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    add_line(heads.map(|(head, _)| head));
    for row in rows {
        add_line(row.each_ref().map(String::as_str));
    }
    text
}

/// A count and its noun: `1 file`, `2 files`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_also_with_wide_letters() {
        let rows = [["db".to_owned(), "1".to_owned()], ["注文".to_owned(), "1000".to_owned()]];
        assert_eq!(
            text_table([("volume", Align::Left), ("n", Align::Right)], &rows),
            "  volume     n\n  db         1\n  注文    1000\n"
        );
    }
}
