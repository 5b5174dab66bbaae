//! Draws what was measured as SVG, over logarithmic axes.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

/// A line of a plot.
pub struct PlotLine {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
}

/// Draws lines over logarithmic axes, for what grows by tens.
pub fn draw(path: &Path, title: &str, across: &str, up: &str, lines: &[PlotLine]) -> Result<()> {
    // The errors of the library borrow what is drawn on.
    drawn(path, title, across, up, lines).map_err(|error| anyhow!("drawing {}: {error}", path.display()))
}

fn drawn(
    path: &Path,
    title: &str,
    across: &str,
    up: &str,
    lines: &[PlotLine],
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(1.0, f64::max);
    let least = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::INFINITY, f64::min).max(0.1);
    let (wide, high) = ((least(|p| p.0), most(|p| p.0)), (least(|p| p.1) / 1.5, most(|p| p.1) * 1.5));

    let area = SVGBackend::new(path, (800, 500)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((wide.0..wide.1).log_scale(), (high.0..high.1).log_scale())?;
    chart.configure_mesh().x_desc(across).y_desc(up).draw()?;
    for (index, line) in lines.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)).point_size(3))?
            .label(line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    area.present()?;
    Ok(())
}
