//! The colours of the style sheet against the contrast that WCAG 2.2 requires at level AA.

use std::collections::BTreeMap;

use weaver_host::page_style::STYLE as CSS;

/// For text. The other limit is for meaningful parts that are no text: borders of inputs, the focus.
const TEXT: f64 = 4.5;
const SIGN: f64 = 3.0;

/// Custom properties between `from` and the next brace.
fn colours(from: &str) -> BTreeMap<&'static str, [f64; 3]> {
    let (_, rest) = CSS.split_once(from).unwrap();
    let block = rest.split('}').next().unwrap();
    let lines =
        block.lines().filter_map(|line| line.trim().strip_prefix("--")?.strip_suffix(';')?.split_once(": #"));
    lines
        .map(|(name, hex)| {
            assert_eq!(hex.len(), 6, "{name}");
            let channel = |at: usize| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            (name, [channel(0), channel(2), channel(4)])
        })
        .collect()
}

fn luminance(colour: [f64; 3]) -> f64 {
    let linear = |channel: f64| {
        if channel <= 0.040_45 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
    };
    let [red, green, blue] = colour.map(linear);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn black_on_white_is_21_to_1() {
    assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 0.001);
    // The value of the definition's own calculators.
    let grey = [f64::from(0x77) / 255.0; 3];
    assert!((contrast(grey, [1.0; 3]) - 4.478).abs() < 0.001);
}

#[test]
fn every_text_can_be_read_in_light_and_in_dark() {
    let light = colours(":root {");
    let dark = colours("(prefers-color-scheme: dark) {\n  :root {");
    assert_eq!(light.keys().collect::<Vec<_>>(), dark.keys().collect::<Vec<_>>());
    assert_ne!(light, dark);
    for colours in [light, dark] {
        for (text, ground, least) in [
            ("text", "ground", TEXT),
            ("text", "raised", TEXT),
            ("text", "code-ground", TEXT),
            ("quiet", "ground", TEXT),
            ("quiet", "raised", TEXT),
            ("link", "ground", TEXT),
            ("link", "raised", TEXT),
            ("ok-text", "ok-ground", TEXT),
            ("warn-text", "warn-ground", TEXT),
            ("bad-text", "bad-ground", TEXT),
            ("button-text", "button-ground", TEXT),
            // Borders of inputs, and the elapsed part of a token's life.
            ("quiet", "line", SIGN),
            ("focus", "ground", SIGN),
            ("focus", "raised", SIGN),
        ] {
            let found = contrast(colours[text], colours[ground]);
            assert!(found >= least, "{text} on {ground}: {found:.2}");
        }
    }
}

#[test]
fn no_rule_has_a_colour_of_its_own() {
    let (_, rules) = CSS.split_once("* { box-sizing").unwrap();
    assert!(!rules.contains('#') && !rules.contains("rgb"), "every colour is one of those that are checked");
}
