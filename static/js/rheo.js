import "./stream.js";
