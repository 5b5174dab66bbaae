//! How every page of ours looks: `weaver ui`'s and the card's.
//!
//! One style sheet, whose colours a test of `weaver ui` checks for contrast; it names classes and knows no page.

pub const STYLE: &str = include_str!("page_style/ui.css");
pub const ICON: &str = include_str!("page_style/icon.svg");
