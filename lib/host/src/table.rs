//! Columns of text under each other. Pure.

/// Width of each column in characters: that of its widest cell.
pub fn widths<'a>(rows: impl IntoIterator<Item = &'a [String]>) -> Vec<usize> {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    widths
}

/// The cells, each as wide as its column, with `gap` between them.
pub fn line(cells: &[String], widths: &[usize], gap: &str) -> String {
    let padded: Vec<_> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
    padded.join(gap)
}

/// All rows, without blanks at the ends of their lines.
pub fn table(rows: &[Vec<String>], gap: &str) -> String {
    let widths = widths(rows.iter().map(Vec::as_slice));
    rows.iter().map(|cells| line(cells, &widths, gap).trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["A".to_owned(), "B".to_owned()], vec!["longer".to_owned(), "ä".to_owned()]];
        assert_eq!(table(&rows, "  "), "A       B\nlonger  ä\n");
        assert_eq!(line(&rows[0], &[2, 3], " | "), "A  | B  ");
        assert_eq!(table(&[vec!["a".to_owned()], vec![], rows[0].clone()], " "), "a\n\nA B\n");
        assert_eq!(table(&[], " "), "");
    }
}
