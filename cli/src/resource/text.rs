//! An object as text for a user to edit: in a private file, in their editor, and read back.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, ensure};
use serde_json::Value;
use tempfile::NamedTempFile;
use weaver_client::merge_patch::content;
use weaver_host::platform;

use super::kind::Kind;
use super::manifest::{self, field};
use super::output::yaml;
use crate::connection;

/// Parts of metadata that name the object of a text, and its state.
const IDENTITY: [&str; 5] = ["generation", "name", "namespace", "resourceVersion", "uid"];

/// A text in a file that only this user can read. It is removed in the end, unless it is kept.
pub struct PrivateTextFile {
    file: NamedTempFile,
    command: String,
}

impl PrivateTextFile {
    pub fn of(kind: Kind, object: &Value) -> anyhow::Result<Self> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let command = set("VISUAL").or_else(|| set("EDITOR"));
        ensure!(
            command.is_some() || std::io::stdin().is_terminal(),
            "there is no editor (VISUAL, EDITOR) and no terminal: use --patch JSON or --filename FILE"
        );
        let mut file = tempfile::Builder::new()
            .prefix("weaver-edit-")
            .suffix(".yaml")
            .tempfile()
            .context("cannot make a private file for the text")?;
        file.write_all(shown(kind, object)?.as_bytes()).context("cannot write the text to a private file")?;
        Ok(Self { file, command: command.unwrap_or_else(|| platform::EDITOR.to_owned()) })
    }

    /// Waits until the user has closed the editor.
    pub async fn open(&self) -> anyhow::Result<()> {
        // As git and kubectl do it: the variable may contain flags.
        let editor = platform::in_editor(&self.command, self.file.path().as_os_str());
        let status = tokio::process::Command::from(editor)
            .status()
            .await
            .with_context(|| format!("cannot start the editor {:?} (VISUAL, EDITOR)", self.command))?;
        ensure!(status.success(), "the editor {:?} failed ({status})", self.command);
        Ok(())
    }

    /// What is in it now. By its path, since many editors replace the file.
    pub fn read(&self) -> anyhow::Result<Value> {
        manifest::read_one(self.file.path())
    }

    /// Leaves the file where it is.
    pub fn keep(self) -> anyhow::Result<PathBuf> {
        let path = self.file.path().to_owned();
        // An editor that replaced the file may have set another mode.
        if path.exists() {
            platform::set_path_mode(&path, 0o600)
                .with_context(|| format!("{} stays readable", path.display()))?;
        }
        self.file.into_temp_path().keep().map_err(|error| anyhow!("cannot keep the text: {error}"))
    }
}

fn shown(kind: Kind, object: &Value) -> anyhow::Result<String> {
    let mut text = content(object);
    for field in IDENTITY {
        text["metadata"][field] = object["metadata"][field].clone();
    }
    text["apiVersion"] = object["apiVersion"].clone();
    text["kind"] = object["kind"].clone();
    Ok(format!(
        "# Change spec, labels and annotations, save, and close the editor; leave the rest as it is. \
         Without a change\n\
         # nothing is done. `weaver crd explain {}.spec` says what each field means.\n{}",
        kind.resource().plural,
        yaml(&text)?
    ))
}

/// The object that a text describes: spec, labels and annotations.
pub fn wanted(kind: Kind, text: &Value, current: &Value) -> anyhow::Result<Value> {
    let (home, own_name) = (field(current, "namespace"), field(current, "name"));
    let key = kind.key(home, own_name);
    let found = Kind::of(text).map_err(|why| anyhow!("the text {why}"))?;
    ensure!(
        found == kind && field(text, "name") == own_name,
        "the text is not about {key}: it says {}",
        found.key(field(text, "namespace"), field(text, "name"))
    );
    let own = field(text, "namespace");
    ensure!(own.is_empty() || own == home, "the text is about namespace {own}, not about {key}");
    ensure!(
        ["", field(current, "uid")].contains(&field(text, "uid")),
        "the text is about an earlier {key}, which was deleted; take its metadata.uid out to change the \
         new one"
    );
    let mut wanted = content(text);
    let version = field(text, "resourceVersion");
    if version.is_empty() {
        // A manifest: fields that it does not mention stay.
        for field in ["labels", "annotations"] {
            if text["metadata"].get(field).is_none()
                && let Some(kept) = current["metadata"].get(field)
            {
                wanted["metadata"][field] = kept.clone();
            }
        }
    } else if version != field(current, "resourceVersion") {
        // The operator's status changes the resourceVersion; the generation shows whether the spec has changed.
        let generation = &text["metadata"]["generation"];
        let same_spec = generation.is_i64() && *generation == current["metadata"]["generation"];
        let same_metadata = content(text)["metadata"] == content(current)["metadata"];
        ensure!(
            same_spec && same_metadata,
            "{key} was changed since this text was read; `weaver {} get {} -n {} -o yaml{}` shows the \
             current version; remove metadata.resourceVersion from the text to overwrite it",
            kind.noun(),
            own_name,
            home,
            connection::flags()
        );
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
            "metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": 2,
                         "labels": {"c": "d"}, "finalizers": ["f"]},
            "spec": {"suspend": false}, "status": {"observedGeneration": 2},
        })
    }

    fn text() -> Value {
        serde_saphyr::from_str(&shown(Kind::ConfigMapSync, &object()).unwrap()).unwrap()
    }

    #[test]
    fn a_text_that_was_not_changed_asks_for_nothing() {
        let text = text();
        assert!(text.get("status").is_none() && text["metadata"].get("finalizers").is_none(), "{text}");
        assert_eq!(wanted(Kind::ConfigMapSync, &text, &object()).unwrap(), content(&object()));
    }

    #[test]
    fn what_is_taken_out_of_a_text_goes_and_what_a_manifest_does_not_mention_stays() {
        let mut text = text();
        text["metadata"].as_object_mut().unwrap().remove("labels");
        assert!(wanted(Kind::ConfigMapSync, &text, &object()).unwrap()["metadata"].get("labels").is_none());
        text["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        assert_eq!(
            wanted(Kind::ConfigMapSync, &text, &object()).unwrap()["metadata"]["labels"],
            json!({"c": "d"})
        );
    }

    #[test]
    fn a_status_written_meanwhile_is_no_obstacle_and_another_spec_is() {
        let mut current = object();
        current["metadata"]["resourceVersion"] = json!("8");
        assert!(wanted(Kind::ConfigMapSync, &text(), &current).is_ok());
        current["metadata"]["generation"] = json!(3);
        let said = wanted(Kind::ConfigMapSync, &text(), &current).unwrap_err().to_string();
        assert!(said.contains("ConfigMapSync b/a was changed since this text was read"), "{said}");
    }

    #[test]
    fn a_text_about_another_object_is_refused() {
        for (field, value, words) in [
            ("name", "other", "the text is not about ConfigMapSync b/a: it says ConfigMapSync b/other"),
            ("namespace", "other", "the text is about namespace other"),
            ("uid", "other", "an earlier ConfigMapSync b/a"),
        ] {
            let mut text = text();
            text["metadata"][field] = json!(value);
            let said = wanted(Kind::ConfigMapSync, &text, &object()).unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        }
    }
}
