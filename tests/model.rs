//! model
mod model {
    mod crash;
    mod explorer;
    mod log;
    mod promises;
    mod reader;
    mod recovery;
    mod rotation;
    mod setting;
    mod settings;
    mod settler;
    mod state;
    mod thread;
    mod walk;
    mod writer;
}
