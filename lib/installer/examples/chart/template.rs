//! One object as a template: markers for the fields that values decide, YAML, templates for the markers.

use std::fmt::Write as _;

use serde_json::Value;

/// What a value decides.
#[derive(Clone, Copy, Debug)]
pub enum With {
    /// The field is this expression.
    Expression(&'static str),
    /// The field, a map or a list, is this value.
    Block(&'static str),
    /// The field is there, with this value, if that is not empty.
    Optional(&'static str),
    /// The field, which the manifest does not have, is this expression.
    Added(&'static str),
    /// The list continues with these lines, of which `{}` is the indentation.
    More(&'static str),
    /// These lines replace the field and its name.
    Lines(&'static str),
}

/// A field, by its JSON pointer, and what decides it. One that the manifest does not have is in a map that it has.
#[derive(Clone, Copy, Debug)]
pub struct Hole {
    pub at: &'static str,
    pub with: With,
}

/// When an object is there.
#[derive(Clone, Copy, Debug, Default)]
pub enum RenderCondition {
    #[default]
    Always,
    /// If this is true.
    If(&'static str),
    /// Once for each of this list, which is `$each`.
    Each(&'static str),
}

/// The object as a document of a template.
///
/// # Errors
/// A hole is not where it is said to be.
pub fn document(object: &Value, holes: &[Hole], when: RenderCondition) -> Result<String, String> {
    let mut object = object.clone();
    for (number, hole) in holes.iter().enumerate() {
        put(&mut object, hole, Value::String(mark(number)))?;
    }
    let text = serde_saphyr::to_string(&object).map_err(|error| error.to_string())?;
    let mut text = text.replace("{{", "{{ \"{{\" }}");
    for (number, hole) in holes.iter().enumerate() {
        text = filled(&text, &mark(number), hole)?;
    }
    let text = text.trim_end();
    Ok(match when {
        RenderCondition::Always => format!("---\n{text}\n"),
        RenderCondition::If(condition) => format!("{{{{- if {condition} }}}}\n---\n{text}\n{{{{- end }}}}\n"),
        RenderCondition::Each(list) => {
            format!("{{{{- range $each := {list} }}}}\n---\n{text}\n{{{{- end }}}}\n")
        }
    })
}

fn mark(number: usize) -> String {
    format!("HOLE-{number}-END")
}

fn put(object: &mut Value, hole: &Hole, mark: Value) -> Result<(), String> {
    let gone = || format!("there is no {}", hole.at);
    match hole.with {
        With::Expression(_) | With::Block(_) => {
            *object.pointer_mut(hole.at).ok_or_else(gone)? = mark;
        }
        With::Optional(_) | With::Added(_) | With::Lines(_) => {
            let (parent, key) = hole.at.rsplit_once('/').ok_or_else(gone)?;
            let parent = object.pointer_mut(parent).and_then(Value::as_object_mut).ok_or_else(gone)?;
            parent.insert(key.to_owned(), mark);
        }
        With::More(_) => {
            object.pointer_mut(hole.at).and_then(Value::as_array_mut).ok_or_else(gone)?.push(mark);
        }
    }
    Ok(())
}

/// The text with the template of `hole` for its mark.
fn filled(text: &str, mark: &str, hole: &Hole) -> Result<String, String> {
    let mut result = String::new();
    let mut found = 0;
    for line in text.lines() {
        let Some((before, _)) = line.split_once(mark) else {
            result.push_str(line);
            result.push('\n');
            continue;
        };
        found += 1;
        // Of the key itself, also where it is the first of an item.
        let indent = before.len() - before.trim_start_matches([' ', '-']).len();
        let (own, below) = (" ".repeat(indent), indent + 2);
        let key = before.trim_end();
        let _ = match hole.with {
            With::Expression(expression) | With::Added(expression) => {
                writeln!(result, "{before}{{{{ {expression} }}}}")
            }
            With::Block(value) => {
                writeln!(result, "{key}\n{own}  {{{{- toYaml {value} | nindent {below} }}}}")
            }
            With::Optional(value) => writeln!(
                result,
                "{own}{{{{- with {value} }}}}\n{key}\n{own}  {{{{- toYaml . | nindent {below} }}}}\n{own}{{{{- end }}}}"
            ),
            With::More(lines) => {
                let own = " ".repeat(before.len() - before.trim_start_matches(' ').len());
                writeln!(result, "{}", lines.replace("{}", &own))
            }
            With::Lines(lines) => {
                // A template cannot begin an item: its dash has a line of its own.
                if before.trim_start_matches(' ').starts_with('-') {
                    let _ = writeln!(result, "{}-", " ".repeat(indent - 2));
                }
                writeln!(result, "{}", lines.replace("{}", &own))
            }
        };
    }
    if found == 1 { Ok(result) } else { Err(format!("{} is in the text {found} times", hole.at)) }
}
