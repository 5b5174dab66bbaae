//! A picture of bars below each other, each from one value to another: what takes how much, and what runs when.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Text to its left.
    pub name: String,
    /// Where it begins and ends.
    pub span: (f64, f64),
    /// Text to its right.
    pub label: String,
    /// Whether it is something of ours: in another colour.
    pub ours: bool,
}

const ROW: u32 = 20;
const NAMES: u32 = 250;
const WIDTH: u32 = 900;
/// The library makes it a quarter smaller.
const SMALL: u32 = 16;
/// Height of the caption and of the axis labels.
const AROUND: u32 = 104;
const OURS: RGBColor = RGBColor(0xc4, 0x4e, 0x1a);
const OTHERS: RGBColor = RGBColor(0x8f, 0xa3, 0xb8);

/// Draws an SVG, the first bar at the top.
///
/// # Errors
/// When the file cannot be written, or there is nothing to draw.
pub fn draw(path: &Path, title: &str, across: &str, bars: &[Bar]) -> Result<()> {
    // The errors of the library borrow what is drawn on.
    drawn(path, title, across, bars).map_err(|error| anyhow!("drawing {}: {error}", path.display()))
}

fn drawn(path: &Path, title: &str, across: &str, bars: &[Bar]) -> Result<(), Box<dyn std::error::Error>> {
    let count = u32::try_from(bars.len())?;
    let most = bars.iter().map(|bar| bar.span.1).fold(0.0, f64::max);
    if count == 0 || most <= 0.0 {
        return Err("there are no bars".into());
    }
    let area = SVGBackend::new(path, (WIDTH, AROUND + count * ROW)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(NAMES)
        // Space for the text to the right of the longest.
        .build_cartesian_2d(0.0..most * 1.25, (0..count).into_segmented())?;
    // From the top down.
    let row = |index: u32| count - 1 - index;
    let name = |at: &SegmentValue<u32>| match at {
        SegmentValue::CenterOf(at) if *at < count => bars[row(*at) as usize].name.clone(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", SMALL))
        .x_desc(across)
        .y_labels(bars.len())
        .y_label_formatter(&name)
        .draw()?;
    let rows = || (0..count).zip(bars);
    chart.draw_series(rows().map(|(index, bar)| {
        let at = row(index);
        let colour = if bar.ours { OURS } else { OTHERS };
        let corners = [
            (bar.span.0, SegmentValue::Exact(at)),
            // A very short bar is visible all the same.
            (bar.span.1.max(bar.span.0 + most / 500.0), SegmentValue::Exact(at + 1)),
        ];
        let mut rectangle = Rectangle::new(corners, colour.filled());
        rectangle.set_margin(3, 3, 0, 0);
        rectangle
    }))?;
    let style = TextStyle::from(("sans-serif", SMALL)).pos(Pos::new(HPos::Left, VPos::Center));
    chart.draw_series(rows().map(|(index, bar)| {
        let at = (bar.span.1, SegmentValue::CenterOf(row(index)));
        EmptyElement::at(at) + Text::new(bar.label.clone(), (6, 0), style.clone())
    }))?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_bar_has_its_name_and_its_label_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bars.svg");
        let bar =
            |name: &str, ours| Bar { name: name.into(), span: (1.0, 3.0), label: format!("{name}!"), ours };
        let bars: Vec<Bar> = (0..40).map(|n| bar(&format!("bar-{n:02}"), n == 3)).collect();
        draw(&path, "Title", "seconds", &bars).unwrap();
        let svg = fs::read_to_string(&path).unwrap();
        for bar in &bars {
            assert_eq!(svg.matches(&format!("{}\n", bar.name)).count(), 1, "{svg}");
            assert_eq!(svg.matches(&bar.label).count(), 1);
        }
        assert_eq!(svg.matches("#C44E1A").count(), 1, "one is ours");
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let error = draw(&dir.path().join("bars.svg"), "Title", "seconds", &[]).unwrap_err();
        assert!(format!("{error}").ends_with("there are no bars"), "{error}");
    }
}
