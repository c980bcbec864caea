// Shows the interface description that the server sends, with calls to try out under a token, in the theme of the pages.
document.documentElement.classList.toggle("dark-mode", isDark());
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#calls",
  deepLinking: true,
  displayOperationId: true,
  defaultModelsExpandDepth: 0,
  docExpansion: "list",
  filter: true,
  validatorUrl: null,
});
