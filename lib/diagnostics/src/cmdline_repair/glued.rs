//! The missing space between two parameters, put in. Every other byte of the line stays.

use super::Draft;
use crate::kernel_cmdline::{Glued, glued, separated};

impl Draft<'_> {
    /// Of a value in quotes nothing is touched, so each word has characters only that are plain to `sed`, but for dots
    /// and plus signs.
    pub(super) fn separate(&mut self) {
        let (mut commands, mut steps) = (Vec::new(), Vec::new());
        for Glued { text, parts, .. } in glued(&self.new) {
            let pattern = text.replace('.', r"\.").replace('+', r"\+");
            let to = parts.join(" ");
            commands.push(
                format!(
                    r"sudo sed -i -E ':a; 1s#(^|[[:space:]]){pattern}([[:space:]]|$)#\1{to}\2#; ta' {}",
                    self.file
                )
                .into(),
            );
            let between: Vec<_> = parts.iter().map(|part| format!("`{part}`")).collect();
            steps.push(format!("put a space between {}", between.join(" and ")).into());
        }
        self.commands.extend(commands);
        self.steps.extend(steps);
        self.new = separated(&self.new);
    }
}
